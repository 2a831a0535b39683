/**
 * The floor of look-ups: the system calls without which no answer can be given, called with as little around them as this
 * runtime allows (through its FFI where there is one: its own `stat` takes three to eight times as long).
 */
import { lstatSync, readdirSync } from "node:fs";
import { libc } from "../../src/ffi/libc.ts";

const AT_FDCWD = -100;
const STATX_BASIC_STATS = 0x7ff;
const IN_NONBLOCK = 0o4000;

const encoder = new TextEncoder();
const path = new Uint8Array(4096);
const stats = new Uint8Array(256);

/** Looks at one file. */
export function stat(file: string): void {
  const c = libc();
  if (c === null) {
    lstatSync(file);
    return;
  }
  const { written } = encoder.encodeInto(file, path);
  path[written] = 0;
  if (c.statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, stats) !== 0) throw new Error(`cannot stat ${file}`);
}

/** Asks a queue of the kernel that has nothing to tell; does nothing where there is none. */
export function emptyDrain(): () => void {
  const c = libc();
  const fd = c?.inotifyInit1(IN_NONBLOCK) ?? -1;
  const buffer = new Uint8Array(65536);
  return c === null ? () => {} : () => void c.read(fd, buffer, buffer.length);
}

/** Lists a directory and looks at each of its files. */
export function statAll(dir: string): number {
  const names = readdirSync(dir);
  for (const name of names) stat(`${dir}/${name}`);
  return names.length;
}
