/**
 * The kernel's own queue of changes, drained on demand. Linux queues an inotify event before the system call that
 * caused it returns, so whoever drains the queue with a non-blocking read has seen every change that came before: no
 * event loop, no cookie file, no wait. An empty drain costs one system call.
 */
import { cString, EAGAIN, EINTR, FIONREAD, type Libc, libc } from "../ffi/libc.ts";

export const IN_MODIFY = 0x2;
export const IN_ATTRIB = 0x4;
export const IN_CLOSE_WRITE = 0x8;
export const IN_MOVED_FROM = 0x40;
export const IN_MOVED_TO = 0x80;
export const IN_CREATE = 0x100;
export const IN_DELETE = 0x200;
export const IN_DELETE_SELF = 0x400;
export const IN_MOVE_SELF = 0x800;
export const IN_UNMOUNT = 0x2000;
export const IN_Q_OVERFLOW = 0x4000;
export const IN_IGNORED = 0x8000;
export const IN_ONLYDIR = 0x1000000;
export const IN_DONT_FOLLOW = 0x2000000;
export const IN_MASK_ADD = 0x20000000;
export const IN_ISDIR = 0x40000000;

/** Everything that can change what a directory's files are or hold. Reads are not among it. */
export const DIRECTORY_CHANGES =
  IN_MODIFY |
  IN_ATTRIB |
  IN_CLOSE_WRITE |
  IN_MOVED_FROM |
  IN_MOVED_TO |
  IN_CREATE |
  IN_DELETE |
  IN_DELETE_SELF |
  IN_MOVE_SELF;

/** That the directory itself was moved or removed; what happens inside it costs nothing. */
export const DIRECTORY_MOVES = IN_DELETE_SELF | IN_MOVE_SELF;

/** That something came to be in it. */
export const ARRIVALS = IN_CREATE | IN_MOVED_TO;

/** `wd` is -1 for IN_Q_OVERFLOW. `name` is "" for events of the directory itself; bytes that are not UTF-8 become U+FFFD. */
export type WatchEventHandler = (wd: number, mask: number, name: string) => void;

/** Why a watch could not be set: `ENOSPC` (max_user_watches), `EMFILE`, `EACCES`, `ENOENT`, `ENOTDIR` …, as a number. */
export interface WatchFailure {
  readonly errno: number;
}

export interface KernelQueue {
  /**
   * Watches a directory and returns its watch descriptor; the same directory always has the same one. `everyName`: from now
   * on, whatever its files are called.
   */
  watch(dir: string, mask: number, everyName?: boolean): number | WatchFailure;
  unwatch(wd: number): void;
  /**
   * Does what takes long about watching a directory for its files' changes beforehand, on another thread: the kernel marks
   * each file in it that it has in its cache, 130 ms for 50,000. The directory's watch takes microseconds then, as long as
   * the function that this resolves with has not been called. Never rejects.
   */
  prepare(dir: string): Promise<() => Promise<void>>;
  /**
   * Hands over every event that was queued before the call, in order, and returns how many there were. Never waits.
   * Left out are files that are not called `*.yaml`, unless every name was asked for. Events of one file that follow each
   * other at once are one, with all their masks: it says that the file must be looked at.
   * Returns -1 when the queue itself has failed: from then on nothing is known.
   */
  drain(handler: WatchEventHandler): number;
  /** On another thread too: the kernel takes some 15 ms to let go of watches. */
  close(): Promise<void>;
}

/** A new queue; null where there is no FFI or no inotify, or the process may have no more of them. */
export function openKernelQueue(): KernelQueue | null {
  const c = libc();
  if (c === null) return null;
  const fd = c.inotifyInit1(IN_NONBLOCK | IN_CLOEXEC);
  return fd < 0 ? null : new InotifyQueue(c, fd);
}

const IN_NONBLOCK = 0o4000;
const IN_CLOEXEC = 0o2000000;

/** wd, mask, cookie, len: four 32-bit words, then the name, padded. */
const HEADER_BYTES = 16;
const HEADER_WORDS = 4;
const LARGEST_EVENT_BYTES = HEADER_BYTES + 256;
const BUFFER_BYTES = 64 * 1024;

class InotifyQueue implements KernelQueue {
  readonly #c: Libc;
  readonly #bytes = Buffer.from(new ArrayBuffer(BUFFER_BYTES));
  readonly #words = new Int32Array(this.#bytes.buffer);
  readonly #queued = new Int32Array(1);
  readonly #everyName = new Set<number>();
  #fd: number;
  /** Holds the marks of what is being prepared; -1 while nothing is. */
  #primer = -1;
  #preparing = 0;

  constructor(c: Libc, fd: number) {
    this.#c = c;
    this.#fd = fd;
  }

  watch(dir: string, mask: number, everyName = false): number | WatchFailure {
    const wd = this.#c.inotifyAddWatch(this.#fd, cString(dir), mask);
    if (wd < 0) return { errno: this.#c.errno() };
    if (everyName) this.#everyName.add(wd);
    return wd;
  }

  unwatch(wd: number): void {
    this.#everyName.delete(wd);
    this.#c.inotifyRmWatch(this.#fd, wd);
  }

  async prepare(dir: string): Promise<() => Promise<void>> {
    if (this.#primer < 0) this.#primer = this.#c.inotifyInit1(IN_NONBLOCK | IN_CLOEXEC);
    const primer = this.#primer;
    if (primer < 0) return async () => {};
    this.#preparing++;
    const wd = await this.#c.inotifyAddWatchLater(primer, cString(dir), IN_MODIFY | IN_ONLYDIR);
    return async () => {
      if (wd >= 0) this.#c.inotifyRmWatch(primer, wd);
      if (--this.#preparing > 0) return;
      this.#primer = -1;
      await this.#c.closeLater(primer);
    };
  }

  drain(handler: WatchEventHandler): number {
    // Nearly always there is nothing: a read would fail, and then errno would have to be asked for why.
    if (this.#c.ioctl(this.#fd, FIONREAD, this.#queued) === 0 && this.#queued[0] === 0) return 0;
    let events = 0;
    for (;;) {
      const read = this.#c.read(this.#fd, this.#bytes, BUFFER_BYTES);
      if (read <= 0) {
        const errno = this.#c.errno();
        if (read < 0 && errno === EINTR) continue;
        return read < 0 && errno !== EAGAIN && FATAL.has(errno) ? -1 : events;
      }
      events += this.#handOver(read, handler);
      // The kernel fills the buffer as long as the next event fits: room to spare means that the queue was empty.
      if (read <= BUFFER_BYTES - LARGEST_EVENT_BYTES) return events;
    }
  }

  /** Everything that is queued is handed over before anything is answered: 16,384 events must take no time. */
  #handOver(length: number, handler: WatchEventHandler): number {
    const words = this.#words;
    let events = 0;
    // Those of one file: where the first of them is, and what they say together.
    let file = -1;
    let fileMask = 0;
    const handOverFile = (): void => {
      if (file < 0) return;
      const start = (file << 2) + HEADER_BYTES;
      const end = this.#endOf(start + (words[file + 3] as number));
      const wd = words[file] as number;
      if (this.#isYaml(start, end) || this.#everyName.has(wd)) handler(wd, fileMask, this.#decode(start, end));
      file = -1;
    };
    for (let at = 0; at < length; events++) {
      const word = at >> 2;
      const mask = (words[word + 1] as number) >>> 0;
      const start = at + HEADER_BYTES;
      const end = start + (words[word + 3] as number);
      if (end > start && (mask & IN_ISDIR) === 0) {
        if (file >= 0 && this.#isSameFile(file, word)) fileMask |= mask;
        else {
          handOverFile();
          file = word;
          fileMask = mask;
        }
      } else {
        handOverFile();
        handler(words[word] as number, mask, end === start ? "" : this.#decode(start, this.#endOf(end)));
      }
      at = end;
    }
    handOverFile();
    return events;
  }

  /** Where the padding of the name before `end` begins. */
  #endOf(end: number): number {
    const bytes = this.#bytes;
    let at = end;
    while (bytes[at - 1] === 0) at--;
    return at;
  }

  /** Both events have names; those are padded with zeros to whole words. */
  #isSameFile(a: number, b: number): boolean {
    const words = this.#words;
    if (words[a] !== words[b] || words[a + 3] !== words[b + 3]) return false;
    // From behind: names of one directory are apt to begin alike.
    for (let i = HEADER_WORDS - 1 + ((words[a + 3] as number) >> 2); i >= HEADER_WORDS; i--) {
      if (words[a + i] !== words[b + i]) return false;
    }
    return true;
  }

  #isYaml(start: number, end: number): boolean {
    const bytes = this.#bytes;
    return (
      end - start >= 5 &&
      bytes[end - 1] === 0x6c &&
      bytes[end - 2] === 0x6d &&
      bytes[end - 3] === 0x61 &&
      bytes[end - 4] === 0x79 &&
      bytes[end - 5] === 0x2e
    );
  }

  #decode(start: number, end: number): string {
    return this.#bytes.toString(this.#isAscii(start, end) ? "latin1" : "utf8", start, end);
  }

  #isAscii(start: number, end: number): boolean {
    const words = this.#words;
    for (let word = start >> 2; word << 2 < end; word++) if ((words[word] as number) & 0x80808080) return false;
    return true;
  }

  async close(): Promise<void> {
    const fd = this.#fd;
    this.#fd = -1;
    if (fd >= 0) await this.#c.closeLater(fd);
  }
}

/** EIO, EBADF, EFAULT, EISDIR, EINVAL: the descriptor is not what we think it is. */
const FATAL = new Set([5, 9, 14, 21, 22]);
