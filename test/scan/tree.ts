/** Trees to scan. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export function definition(name: string, type = "swamp/worker"): string {
  const id = `00000000-1111-4222-8333-${Buffer.from(name).toString("hex").slice(-12).padStart(12, "0")}`;
  return `type: ${type}\ntypeVersion: 2026.06.09.1\nid: ${id}\nname: ${name}\nversion: 1\ntags: {}\nmethods: {}\n`;
}

/** So many that workers take over. */
export const MANY = 5_100;

/** Writes `count` definitions named `{prefix}-{i}` to `dir`, and returns their paths. */
export function writeDefinitions(dir: string, count: number, prefix = "fleet"): string[] {
  mkdirSync(dir, { recursive: true });
  return Array.from({ length: count }, (_, i) => {
    const path = join(dir, `${prefix}-${i}.yaml`);
    writeFileSync(path, definition(`${prefix}-${i}`));
    return path;
  });
}
