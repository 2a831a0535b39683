/** What somebody says has changed, where no queue tells, or before it does. */
import type { Freshness } from "./freshness.ts";
import { baseOf, parentOf, type TypeState } from "./type-state.ts";
import type { TypeTree } from "./type-tree.ts";

/** `path`: of a definition, of a directory of some, or of a root or what lies above it. Others are let pass. */
export function noteChange(tree: TypeTree, freshness: Freshness, path: string): void {
  for (const { index, dir } of tree.roots) {
    if (path === dir || dir.startsWith(`${path}/`)) tree.loseRoot(index);
    if (!path.startsWith(`${dir}/`)) continue;
    const relative = path.slice(dir.length + 1).replace(/\/+$/, "");
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
