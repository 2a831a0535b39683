/** The index, the repository over it, and their opening. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import {
  createDefinitionRepository,
  type DefinitionIndex,
  type DefinitionRepository,
  noticeChanges,
  openDefinitionIndex,
} from "../../src/definitions/index.ts";
import { openSwampRepository } from "../../src/swamp/index.ts";
import { idOf, type Thing, textOf, thing, thingCodec } from "../support/things.ts";
import { type Attempt, attempt, type Call, having, iterate, type Reached, type Room, turns } from "./call.ts";
import { treeOf } from "./residue.ts";

interface World {
  base: string;
  index: DefinitionIndex;
}

/** So many that they are looked at by the worker. */
const FILES = 26;
/** What the locks leave, for all names together. */
const MUTEX = /^\.(mutex|id)-[0-9a-f]{2}(\.\d+)?$/;

/** A type of which the index knows nothing yet; its first definition lies in a file of another name. */
class Place {
  readonly type: string;
  readonly name: string;
  readonly id: string;
  readonly path: string;
  readonly #world: World;
  readonly #n: number;

  constructor(world: World, n: number) {
    this.#world = world;
    this.#n = n;
    this.type = `aborts/n${n}`;
    this.name = `web-${n}`;
    this.id = idOf(n * 1_000);
    this.path = join(this.dir, "odd.yaml");
    mkdirSync(this.dir, { recursive: true });
    this.write("odd", thing(n * 1_000, this.name));
    for (let other = 1; other < FILES; other++)
      this.write(`other-${n}-${other}`, this.thing(other, `other-${n}-${other}`));
  }

  get dir(): string {
    return join(this.#world.base, "models", this.type);
  }

  thing(number: number, name: string, note?: string): Thing {
    return thing(this.#n * 1_000 + number, name, note);
  }

  write(stem: string, content: Thing): void {
    writeFileSync(join(this.dir, `${stem}.yaml`), textOf(this.type, content));
  }

  /** The files of the type, and whatever the locks and temporary files have left. */
  look(): Record<string, string> {
    const files = Object.entries(treeOf(this.dir));
    const locks = Object.keys(treeOf(join(this.#world.base, "models", ".auto-definition-create")));
    return Object.fromEntries([...files, ...locks.filter((name) => !MUTEX.test(name)).map((name) => [name, "locked"])]);
  }

  end(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

type Read<Value> = (world: World, place: Place, o: { signal?: AbortSignal }, reached: Reached) => Promise<Value>;

/** Looks something up of which the index must first hear. */
function looksUp<Value>(call: Read<Value>, check: (value: Value, place: Place) => void, repeats = 500): Call<World> {
  return {
    repeats,
    prepare(world, n) {
      const place = new Place(world, n);
      return attempt({
        call: (signal, reached) => call(world, place, having(signal), reached),
        look: () => readdirSync(place.dir),
        check: (value: Value) => check(value, place),
        end: () => place.end(),
      });
    },
  };
}

const findsPlace = (value: { path: string } | null, { path }: Place): void => expect(value?.path).toBe(path);
const findsThing = (value: Thing | null, { id }: Place): void => expect(value?.id).toBe(id);

/** Changes files of a place by the repository; its hooks are moments. */
function changes(
  call: (
    repository: DefinitionRepository<Thing>,
    place: Place,
    o: { signal?: AbortSignal },
    reached: Reached,
  ) => Promise<unknown>,
  done: (tree: Record<string, string>, place: Place) => boolean,
): Call<World> {
  return {
    prepare(world, n) {
      const place = new Place(world, n);
      return attempt({
        call: (signal, reached) => call(repositoryOn(world.index, reached), place, having(signal), reached),
        look: () => place.look(),
        check: (_: unknown, seen, before) => expect(seen).not.toEqual(before),
        done: (seen) => done(seen, place),
        end: () => place.end(),
      });
    },
  };
}

function repositoryOn(index: DefinitionIndex, reached: Reached): DefinitionRepository<Thing> {
  return createDefinitionRepository(index, {
    codec: thingCodec,
    writeRoot: "models",
    onWillWrite: () => reached("before"),
    onChange: () => reached("after"),
  });
}

const plain = (world: World): DefinitionRepository<Thing> => repositoryOn(world.index, () => {});

const has = (tree: Record<string, string>, stem: string, part = ""): boolean =>
  tree[`${stem}.yaml`]?.includes(part) ?? false;

export const definitions: Room<World> = {
  name: "definitions",
  async open(base) {
    const roots = ["models", "auto"].map((name) => ({ name, dir: join(base, name) }));
    return { base, index: await openDefinitionIndex({ roots, indexDir: join(base, "index") }) };
  },
  close: ({ index }) => index.close(),
  calls: {
    "DefinitionIndex.findByName": looksUp((w, p, o) => w.index.findByName(p.type, p.name, o), findsPlace),
    "DefinitionIndex.findById": looksUp((w, p, o) => w.index.findById(p.type, p.id, o), findsPlace),
    "DefinitionIndex.findByNameGlobal": looksUp((w, p, o) => w.index.findByNameGlobal(p.name, o), findsPlace),
    "DefinitionIndex.findByIdGlobal": looksUp((w, p, o) => w.index.findByIdGlobal(p.id, o), findsPlace),
    "DefinitionIndex.entries": looksUp(
      (w, p, o, reached) => iterate(w.index.entries({ ...o, type: p.type }), reached),
      (all) => expect(all).toHaveLength(FILES),
      100,
    ),
    "DefinitionIndex.problems": {
      repeats: 100,
      prepare(world, n) {
        const place = new Place(world, n);
        for (const stem of ["a", "b", "c"]) writeFileSync(join(place.dir, `${stem}.yaml`), "id: [");
        return attempt({
          call: (signal, reached) => iterate(world.index.problems({ ...having(signal), type: place.type }), reached),
          look: () => readdirSync(place.dir),
          check: (all) =>
            expect(all.map(({ kind }) => kind).sort()).toEqual(["mismatched", "syntax", "syntax", "syntax"]),
          end: () => place.end(),
        });
      },
    },
    "DefinitionIndex.refresh": looksUp(
      (w, _, o, reached) => w.index.refresh({ ...o, onProgress: () => reached() }),
      ({ files }) => expect(files).toBe(FILES),
      20,
    ),
    "DefinitionIndex.applyChanges": {
      ...looksUp(async (w, p, o) => {
        await w.index.applyChanges([p.path], o);
        return w.index.findByName(p.type, p.name);
      }, findsPlace),
    },
    "DefinitionRepository.findById": looksUp((w, p, o) => plain(w).findById(p.type, p.id, o), findsThing),
    "DefinitionRepository.findByName": looksUp((w, p, o) => plain(w).findByName(p.type, p.name, o), findsThing),
    "DefinitionRepository.findPath": looksUp(
      (w, p, o) => plain(w).findPath(p.type, p.id, o),
      (path, place) => expect(path).toBe(place.path),
    ),
    "DefinitionRepository.findAll": looksUp(
      (w, p, o) => plain(w).findAll(p.type, o),
      (all) => expect(all).toHaveLength(FILES),
      100,
    ),
    "DefinitionRepository.findByNameGlobal": looksUp(
      (w, p, o) => plain(w).findByNameGlobal(p.name, o),
      (found, place) => expect(found).toMatchObject({ type: place.type, definition: { id: place.id } }),
    ),
    "DefinitionRepository.findByIdGlobal": looksUp(
      (w, p, o) => plain(w).findByIdGlobal(p.id, o),
      (found, place) => expect(found).toMatchObject({ type: place.type, definition: { name: place.name } }),
    ),
    "DefinitionRepository.findAllGlobal": looksUp(
      (w, _, o) => plain(w).findAllGlobal(o),
      (all) => expect(all).toHaveLength(FILES),
      100,
    ),
    "DefinitionRepository.save": changes(
      (r, p, o) => r.save(p.type, p.thing(500, "fresh"), o),
      (tree) => has(tree, "fresh"),
    ),
    "DefinitionRepository.save, over what is there": changes(
      (r, p, o) => r.save(p.type, p.thing(1, `other-${p.name.slice(4)}-1`, "changed"), o),
      (tree, place) => has(tree, `other-${place.name.slice(4)}-1`, "note: changed"),
    ),
    "DefinitionRepository.save, under another name": changes(
      (r, p, o) => r.save(p.type, p.thing(0, "renamed"), o),
      (tree) => has(tree, "renamed") && !has(tree, "odd"),
    ),
    "DefinitionRepository.delete": changes(
      (r, p, o) => r.delete(p.type, p.id, o),
      (tree) => !has(tree, "odd"),
    ),
    "DefinitionRepository.resolveOrCreate": changes(
      (r, p, o, reached) => {
        const create = async (): Promise<Thing> => {
          reached("before");
          await turns(1);
          return p.thing(500, "created");
        };
        return r.resolveOrCreate(p.type, "created", create, o);
      },
      (tree) => has(tree, "created"),
    ),
    "DefinitionRepository.resolveOrCreate, of one that is there": looksUp(
      (w, p, o) => plain(w).resolveOrCreate(p.type, p.name, () => expect.unreachable(), o),
      ({ created, path }, place) => expect({ created, path }).toEqual({ created: false, path: place.path }),
    ),
    noticeChanges: {
      repeats: 30,
      prepare(world, n) {
        const place = new Place(world, n);
        const service = {
          /** Its point of no return: the file. */
          async pullChanged(reached: Reached, { signal }: { signal?: AbortSignal }): Promise<void> {
            await turns(2);
            signal?.throwIfAborted();
            place.write("pulled", place.thing(500, "pulled"));
            reached("after");
            await turns(2);
          },
        };
        return attempt({
          call: (signal, reached) => noticeChanges(service, world.index).pullChanged(reached, having(signal)),
          look: () => place.look(),
          check: (_: unknown, seen) => expect(has(seen, "pulled")).toBe(true),
          done: (seen) => has(seen, "pulled"),
          end: () => place.end(),
        });
      },
    },
  },
};

/** Opens what is closed again when it has been looked at. */
function opens<Opened extends { close(): Promise<void> }>(
  open: (base: string, o: { signal?: AbortSignal }) => Promise<Opened>,
  indexOf: (opened: Opened) => DefinitionIndex,
): Call<string> {
  return {
    repeats: 2,
    prepare(base): Attempt {
      let opened: Opened | null = null;
      return attempt({
        async call(signal) {
          opened = await open(base, having(signal));
          return opened;
        },
        look: () => treeOf(join(base, "models")),
        // Whoever was aborted has given the first place back.
        check: (value: Opened) => expect(indexOf(value).stats().slot).toBe(0),
        end: () => opened?.close(),
      });
    },
  };
}

export const definitionOpenings: Room<string> = {
  name: "opening definitions",
  open(base) {
    mkdirSync(join(base, "models/aborts"), { recursive: true });
    writeFileSync(join(base, "models/aborts/one.yaml"), textOf("aborts", thing(1, "one")));
    return base;
  },
  close() {},
  calls: {
    openDefinitionIndex: opens(
      (base, o) =>
        openDefinitionIndex({
          ...o,
          roots: [{ name: "models", dir: join(base, "models") }],
          indexDir: join(base, "index"),
        }),
      (index) => index,
    ),
    openSwampRepository: opens(
      (repoDir, o) => openSwampRepository<Thing>({ ...o, repoDir, codec: thingCodec }),
      ({ index }) => index,
    ),
  },
};
