/** An index that reads every file at every question: what the repository may rely on, without anything clever. */
import { lstatSync } from "node:fs";
import {
  type Candidate,
  type DefinitionIndex,
  exposeInternals,
  type IndexInternals,
  type Occupant,
} from "../../src/definitions/model.ts";
import { DefinitionProblemError } from "../../src/errors.ts";
import { DEFAULT_KEYS, type DefinitionEntry, type DefinitionProblem } from "../../src/scan/model.ts";
import {
  answerOf,
  byBytes,
  matchesOf,
  type ObviousEntry,
  type ObviousProblem,
  type ObviousRoot,
  readObviously,
  readOne,
} from "./obvious-reader.ts";

export interface ObviousIndexOptions {
  roots: readonly ObviousRoot[];
  boundary?: string;
  maxFileBytes?: number;
}

export function openObviousIndex(options: ObviousIndexOptions): DefinitionIndex {
  const { roots } = options;
  const read = () => readObviously(roots, options);
  const refused = new Map<string, string>();
  const internals: IndexInternals = {
    roots,
    keys: DEFAULT_KEYS,
    async select(query, accept, o) {
      o?.signal?.throwIfAborted();
      const reading = read();
      const matches = matchesOf(reading, query);
      for (const match of matches) {
        const accepted = accept(candidateOf(match));
        if (accepted !== undefined) return accepted;
      }
      const answer = answerOf({ ...reading, entries: reading.entries.filter((e) => !matches.includes(e)) }, query);
      if (answer === null || !("problem" in answer)) return null;
      const problem = reading.problems.find((p) => p.path === answer.problem)!;
      throw new DefinitionProblemError(problemFrom(problem));
    },
    async *list(o = {}) {
      const entries = read().entries.filter(
        (entry) =>
          (o.roots === undefined || o.roots.includes(entry.root)) && (o.type === undefined || o.type === entry.type),
      );
      for (const entry of entries.sort((a, b) => byBytes(a.path, b.path))) {
        o.signal?.throwIfAborted();
        yield candidateOf(entry);
      }
    },
    reject: (entry, message) => {
      refused.set(entry.path, message);
    },
    examine(path, rootName, type): Occupant {
      const stat = lstatSync(path, { throwIfNoEntry: false });
      if (stat === undefined || stat.isDirectory()) return { kind: "absent" };
      const root = roots.find(({ name }) => name === rootName)!;
      const one = readOne(root, type, path, path.slice(path.lastIndexOf("/") + 1), stat.isSymbolicLink(), options);
      if (one === null) return { kind: "absent" };
      if ("kind" in one) return { kind: "problem", problem: problemFrom(one) };
      return { kind: "entry", entry: entryFrom(one), document: one.document };
    },
    noteWritten: () => {},
    lastKnownPath: (type, id, names) => matchesOf(read(), { by: "id", key: id, type, roots: names })[0]?.path ?? null,
  };
  const none = (): never => {
    throw new Error("the obvious index has only what the repository needs");
  };
  const index: DefinitionIndex = {
    findByName: none,
    findById: none,
    findByNameGlobal: none,
    findByIdGlobal: none,
    entries: none,
    async *problems() {
      for (const [path, message] of refused) {
        const root = roots.find(({ dir }) => path.startsWith(`${dir}/`))!.name;
        yield { path, root, kind: "invalid", message };
      }
      for (const problem of read().problems) yield problemFrom(problem);
    },
    refresh: none,
    applyChanges: none,
    stats: none,
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
  exposeInternals(index, internals);
  return index;
}

function candidateOf(entry: ObviousEntry): Candidate {
  return { entry: entryFrom(entry), document: () => structuredClone(entry.document) };
}

function entryFrom({ document: _, ...entry }: ObviousEntry): DefinitionEntry {
  const stat = lstatSync(entry.path, { bigint: true });
  const { mtimeNs, ctimeNs, ino } = stat;
  return { ...entry, stamp: { mtimeNs, ctimeNs, size: Number(stat.size), inode: ino, granularityNs: 0 } };
}

function problemFrom({ path, root, kind, message }: ObviousProblem): DefinitionProblem {
  return { path, root, kind: kind as DefinitionProblem["kind"], message };
}
