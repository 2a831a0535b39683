/** What every door checks of what it is given: plain JavaScript calls, too, are told which argument is wrong. */
import { InvalidArgumentError } from "./errors.ts";

/** @throws InvalidArgumentError unless it is an object (no array) */
export function checkObject(argument: string, value: unknown, expected = "an object"): void {
  if (!isObject(value)) throw new InvalidArgumentError(argument, value, expected);
}

/** Neither an array nor null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @throws InvalidArgumentError unless it is a function */
export function checkFunction(argument: string, value: unknown, expected = "a function"): void {
  if (typeof value !== "function") throw new InvalidArgumentError(argument, value, expected);
}

/**
 * Options that may be left out, with the signal among them and those `callbacks` that are given.
 *
 * @throws InvalidArgumentError
 */
export function checkOptions(options: unknown, ...callbacks: readonly string[]): void {
  if (options === undefined) return;
  checkObject("options", options);
  const given = options as Record<string, unknown>;
  checkSignal(given["signal"]);
  for (const name of callbacks) if (given[name] !== undefined) checkFunction(name, given[name]);
}

/** @throws InvalidArgumentError unless it is undefined or an AbortSignal, of whatever realm */
export function checkSignal(signal: unknown): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  const { throwIfAborted, addEventListener } = (signal ?? {}) as Partial<AbortSignal>;
  if (typeof throwIfAborted !== "function" || typeof addEventListener !== "function")
    throw new InvalidArgumentError("signal", signal, "an AbortSignal");
}

/** @throws InvalidArgumentError unless it is text that can be a path */
export function checkPath(argument: string, value: unknown): void {
  if (typeof value !== "string" || value === "" || value.includes("\0"))
    throw new InvalidArgumentError(argument, value, "a path");
}
