/** What somebody says has changed, where no queue tells, or before it does. */
import { normalize } from "node:path";
import type { Freshness } from "./freshness.ts";
import { baseOf, parentOf, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/**
 * `path`: of a definition, of a directory of some, or of a root or what lies above it, by the name of the root or by where it
 * really lies. Others are let pass.
 */
export function noteChange(tree: TypeTree, freshness: Freshness, path: string): void {
  const plain = normalize(path).replace(/\/+$/, "");
  for (const { index, dir, realDir } of tree.roots) {
    if ([dir, realDir].some((root) => `${root}/`.startsWith(`${plain}/`))) tree.loseRoot(index);
    const root = [dir, realDir].find((root) => plain.startsWith(`${root}/`));
    if (root === undefined) continue;
    const relative = plain.slice(root.length + 1);
    const type = parentOf(relative) ?? "";
    const state = tree.types.get(type);
    if (state === undefined) {
      nearest(tree, type).invalidateTree();
      continue;
    }
    if (relative.endsWith(".yaml")) freshness.mark(state, index, baseOf(relative));
    const below = tree.types.get(relative);
    if (below === undefined && relative.endsWith(".yaml")) continue;
    state.invalidate();
    below?.invalidateTree();
  }
}

function nearest(tree: TypeTree, type: string): TypeState {
  for (let at: string | null = type; at !== null; at = parentOf(at)) {
    const state = tree.types.get(at);
    if (state !== undefined) return state;
  }
  return tree.top;
}
