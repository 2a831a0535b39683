/** The table of points of no return, as the manual has it. */
import { readFileSync } from "node:fs";

const MANUAL = new URL("../../API.md", import.meta.url);

const OWNERS: Record<string, string> = {
  "definition index": "DefinitionIndex.",
  repository: "DefinitionRepository.",
  "state index": "StateIndex.",
  "control-plane store": "ControlPlaneStore.",
  "transition queue": "TransitionQueue.",
};

/** By call: what the manual names as its point of no return. */
export function pointsOfNoReturn(): Map<string, string> {
  const [, section = ""] = readFileSync(MANUAL, "utf8").split("\n## Abort\n");
  const [, table = ""] = section.split("\n|---|---|---|\n");
  const points = new Map<string, string>();
  for (const line of table.slice(0, table.indexOf("\n\n")).split("\n")) {
    const [, calls = "", point = ""] = line.split("|").map((cell) => cell.trim());
    const owner = calls.slice(0, Math.max(0, calls.indexOf(":")));
    const prefix = owner === "" ? "" : OWNERS[owner];
    if (prefix === undefined) throw new Error(`the manual speaks of calls of an unknown ${owner}`);
    for (const [, name = ""] of calls.matchAll(/`(\w+)`/g)) {
      if (points.has(prefix + name)) throw new Error(`the manual has ${prefix}${name} twice`);
      points.set(prefix + name, point);
    }
  }
  return points;
}
