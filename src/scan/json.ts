/** Documents as JSON text, where that loses nothing. */

/** No document that a person wrote is deeper; JSON's own reader and writer recurse. */
const MAX_DEPTH = 500;

/**
 * `value` as JSON, when reading that gives an equal value again and it takes at most `maxBytes`; else null. What does not
 * come back: NaN and infinities, -0, undefined, bigints, dates, maps, class instances, accessors, holes in an array, a key
 * `__proto__`, a cycle.
 */
export function toFaithfulJson(value: unknown, maxBytes: number): string | null {
  const writer = { text: "", maxBytes };
  if (!write(value, writer, 0)) return null;
  return Buffer.byteLength(writer.text) <= maxBytes ? writer.text : null;
}

interface Writer {
  text: string;
  readonly maxBytes: number;
}

function write(value: unknown, to: Writer, depth: number): boolean {
  if (to.text.length > to.maxBytes) return false;
  switch (typeof value) {
    case "string":
      to.text += JSON.stringify(value);
      return true;
    case "number":
      if (!Number.isFinite(value) || Object.is(value, -0)) return false;
      to.text += String(value);
      return true;
    case "boolean":
      to.text += value ? "true" : "false";
      return true;
    case "object":
      if (value === null) {
        to.text += "null";
        return true;
      }
      if (depth >= MAX_DEPTH) return false;
      return Array.isArray(value) ? writeArray(value, to, depth + 1) : writeObject(value, to, depth + 1);
    default:
      return false;
  }
}

function writeArray(array: readonly unknown[], to: Writer, depth: number): boolean {
  // Its own keys are its indices and `length`: no holes, nothing besides.
  if (Object.getPrototypeOf(array) !== Array.prototype || Reflect.ownKeys(array).length !== array.length + 1)
    return false;
  to.text += "[";
  for (let i = 0; i < array.length; i++) {
    if (i > 0) to.text += ",";
    if (!writeProperty(array, String(i), to, depth)) return false;
  }
  to.text += "]";
  return true;
}

function writeObject(object: object, to: Writer, depth: number): boolean {
  if (Object.getPrototypeOf(object) !== Object.prototype) return false;
  let separator = "{";
  for (const key of Reflect.ownKeys(object)) {
    if (typeof key === "symbol" || key === "__proto__") return false;
    to.text += `${separator}${JSON.stringify(key)}:`;
    separator = ",";
    if (!writeProperty(object, key, to, depth)) return false;
  }
  to.text += separator === "{" ? "{}" : "}";
  return true;
}

function writeProperty(of: object, key: string, to: Writer, depth: number): boolean {
  const property = Object.getOwnPropertyDescriptor(of, key);
  return property?.enumerable === true && "value" in property && write(property.value, to, depth);
}
