/**
 * The few libc calls that neither Node nor Deno offers, through `koffi` on Node and `Deno.dlopen` on Deno. Loaded at
 * first use, never on import; `null` where there is no FFI (koffi not installed, no `--allow-ffi`, another system), and
 * every caller has a way to do without.
 */
import { createRequire } from "node:module";
import { environmentVariable } from "../permissions.ts";

/** All calls return what libc returns; `errno()` is that of the last call that returned -1, read at once after it. */
export interface Libc {
  flock(fd: number, operation: number): number;
  /** Only for the commands that take a `struct flock`: variadic in C, but passed alike on x86-64 and arm64 Linux. */
  fcntl(fd: number, command: number, lock: Uint8Array): number;
  /** Only for the requests that take a pointer: see `fcntl`. */
  ioctl(fd: number, request: number, argument: Int32Array): number;
  inotifyInit1(flags: number): number;
  /** `path` is UTF-8 and ends in NUL: see {@link cString}. */
  inotifyAddWatch(fd: number, path: Uint8Array, mask: number): number;
  /** The same on another thread; without an errno. */
  inotifyAddWatchLater(fd: number, path: Uint8Array, mask: number): Promise<number>;
  inotifyRmWatch(fd: number, wd: number): number;
  read(fd: number, into: Uint8Array, count: number): number;
  close(fd: number): number;
  /** On another thread. */
  closeLater(fd: number): Promise<number>;
  statx(dirfd: number, path: Uint8Array, flags: number, mask: number, into: Uint8Array): number;
  statfs(path: Uint8Array, into: Uint8Array): number;
  errno(): number;
}

export const LOCK_SH = 1;
export const LOCK_EX = 2;
export const LOCK_NB = 4;
export const LOCK_UN = 8;

/** For `ioctl`: how many bytes a read would give. */
export const FIONREAD = 0x541b;

export const EINTR = 4;
export const EAGAIN = 11;
export const ENOENT = 2;
export const EACCES = 13;
export const EMFILE = 24;
export const ENOSPC = 28;

const encoder = new TextEncoder();

/** The path as the C side wants it: UTF-8 with a NUL behind. Must not hold a NUL itself. */
export function cString(path: string): Uint8Array {
  return encoder.encode(`${path}\0`);
}

let loaded: Libc | null | undefined;

/** The libc of this process, or null where there is no FFI. Linux only today; opening it costs about 5 ms, once. */
export function libc(): Libc | null {
  if (loaded === undefined) loaded = environmentVariable("TUSSOCK_NO_FFI") ? null : load();
  return loaded;
}

/** The same where somebody has loaded it already: for what can do without, and is not worth the loading. */
export function libcIfLoaded(): Libc | null {
  return loaded ?? null;
}

function load(): Libc | null {
  if (process.platform !== "linux") return null;
  try {
    return "Deno" in globalThis ? loadThroughDeno() : loadThroughKoffi();
  } catch {
    return null;
  }
}

interface KoffiFunction {
  (...values: unknown[]): number;
  /** The last value is called with an error or null, and the result. */
  async(...values: unknown[]): void;
}

interface KoffiLibrary {
  func(declaration: string): KoffiFunction;
}

interface Koffi {
  load(path: string | null): KoffiLibrary;
  errno(): number;
}

function loadThroughKoffi(): Libc {
  const koffi = createRequire(import.meta.url)("koffi") as Koffi;
  const library = koffi.load(null);
  const addWatch = library.func("int inotify_add_watch(int fd, void *path, uint32_t mask)");
  const close = library.func("int close(int fd)");
  const later = (call: KoffiFunction, ...values: unknown[]): Promise<number> =>
    new Promise((resolve) => {
      call.async(...values, (error: unknown, result: number) => resolve(error === null ? result : -1));
    });
  return {
    flock: library.func("int flock(int fd, int operation)"),
    fcntl: library.func("int fcntl(int fd, int command, void *lock)"),
    ioctl: library.func("int ioctl(int fd, unsigned long request, void *argument)"),
    inotifyInit1: library.func("int inotify_init1(int flags)"),
    inotifyAddWatch: addWatch,
    inotifyAddWatchLater: (fd, path, mask) => holding(path, later(addWatch, fd, path, mask)),
    inotifyRmWatch: library.func("int inotify_rm_watch(int fd, int wd)"),
    read: library.func("intptr_t read(int fd, void *buffer, size_t count)"),
    close,
    closeLater: (fd) => later(close, fd),
    statx: library.func("int statx(int dirfd, void *path, int flags, unsigned int mask, void *buffer)"),
    statfs: library.func("int statfs(void *path, void *buffer)"),
    errno: () => koffi.errno(),
  };
}

/** What a call on another thread reads must not be collected before it has. */
function holding<T>(bytes: Uint8Array, call: Promise<T>): Promise<T> {
  const held = [bytes];
  return call.finally(() => held.pop());
}

interface DenoSymbol {
  readonly name?: string;
  readonly parameters: string[];
  readonly result: string;
  readonly nonblocking?: boolean;
}

interface DenoLibrary {
  symbols: Record<string, (...values: unknown[]) => unknown>;
}

interface DenoNamespace {
  dlopen(path: string, symbols: Record<string, DenoSymbol>): DenoLibrary;
  UnsafePointerView: { getInt32?: unknown; new (pointer: unknown): { getInt32(offset?: number): number } };
}

function loadThroughDeno(): Libc {
  const deno = (globalThis as unknown as { Deno: DenoNamespace }).Deno;
  const symbols = {
    flock: { parameters: ["i32", "i32"], result: "i32" },
    fcntl: { parameters: ["i32", "i32", "buffer"], result: "i32" },
    ioctl: { parameters: ["i32", "u32", "buffer"], result: "i32" },
    inotify_init1: { parameters: ["i32"], result: "i32" },
    inotify_add_watch: { parameters: ["i32", "buffer", "u32"], result: "i32" },
    addWatchLater: {
      name: "inotify_add_watch",
      parameters: ["i32", "buffer", "u32"],
      result: "i32",
      nonblocking: true,
    },
    inotify_rm_watch: { parameters: ["i32", "i32"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
    closeLater: { name: "close", parameters: ["i32"], result: "i32", nonblocking: true },
    statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
    statfs: { parameters: ["buffer", "buffer"], result: "i32" },
    __errno_location: { parameters: [], result: "pointer" },
  };
  const { symbols: c } = openFirst(deno, symbols);
  const call = (name: keyof typeof symbols) => c[name] as (...values: unknown[]) => number;
  const errnoLocation = c["__errno_location"] as () => unknown;
  const addWatchLater = c["addWatchLater"] as Libc["inotifyAddWatchLater"];
  const read = c["read"] as (fd: number, into: Uint8Array, count: bigint) => bigint | number;
  return {
    flock: call("flock"),
    fcntl: call("fcntl"),
    ioctl: call("ioctl"),
    inotifyInit1: call("inotify_init1"),
    inotifyAddWatch: call("inotify_add_watch"),
    inotifyAddWatchLater: (fd, path, mask) => holding(path, addWatchLater(fd, path, mask)),
    inotifyRmWatch: call("inotify_rm_watch"),
    read: (fd, into, count) => Number(read(fd, into, BigInt(count))),
    close: call("close"),
    closeLater: c["closeLater"] as Libc["closeLater"],
    statx: call("statx"),
    statfs: call("statfs"),
    errno: () => new deno.UnsafePointerView(errnoLocation()).getInt32(),
  };
}

/** glibc first, then musl. */
function openFirst(deno: DenoNamespace, symbols: Record<string, DenoSymbol>): DenoLibrary {
  const arch = process.arch === "arm64" ? "aarch64" : "x86_64";
  let failure: unknown;
  for (const path of ["libc.so.6", `libc.musl-${arch}.so.1`, `/lib/ld-musl-${arch}.so.1`]) {
    try {
      return deno.dlopen(path, symbols);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
