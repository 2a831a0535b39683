/** What the index can say about itself. */
import { type Freshness, isBounded } from "./freshness.ts";
import type { DefinitionIndexStats } from "./model.ts";
import type { TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

export function statsOf(
  tree: TypeTree,
  freshness: Freshness,
  o: Pick<DefinitionIndexStats, "slot" | "fileSize" | "lookups">,
): DefinitionIndexStats {
  const types: DefinitionIndexStats["types"] = {};
  for (const state of tree.types.values()) {
    const reason = whyNotExact(state);
    types[state.type] = { freshness: reason === null ? "exact" : "bounded", reason };
  }
  const { filesRead, passes } = freshness;
  const reason = tree.unwatchable ?? firstReason(tree, types);
  return {
    ...o,
    roots: countsOf(tree),
    freshness: reason === null ? "exact" : "bounded",
    reason,
    types,
    watch: {
      mechanism: tree.unwatchable === null ? "inotify" : "none",
      directories: tree.watched,
      overflows: tree.overflows,
    },
    lastSweep: passes.lastSweep,
    io: { filesRead: filesRead + passes.filesRead, directoriesListed: passes.directoriesListed },
  };
}

function countsOf(tree: TypeTree): DefinitionIndexStats["roots"] {
  const roots: DefinitionIndexStats["roots"] = {};
  for (const { name, index } of tree.roots) {
    const types: Record<string, number> = {};
    let definitions = 0;
    for (const { type, counts } of tree.types.values()) {
      const count = counts[index] ?? 0;
      if (count === 0) continue;
      types[type] = count;
      definitions += count;
    }
    roots[name] = { types, definitions };
  }
  return roots;
}

function whyNotExact(state: TypeState): string | null {
  if (!state.swept) return "not looked through yet";
  return isBounded(state) ? (state.boundedBecause ?? "a directory above it is not watched") : null;
}

function firstReason(tree: TypeTree, types: DefinitionIndexStats["types"]): string | null {
  for (const { type, asked } of tree.types.values()) {
    if (!asked) continue;
    const reason = types[type]?.reason ?? null;
    if (reason !== null) return `${type}: ${reason}`;
  }
  return null;
}
