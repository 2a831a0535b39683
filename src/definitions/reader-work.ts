/** What a thread is asked to do with some files of a directory, and does. */
import { DefinitionReadError } from "../errors.ts";
import { type ExamineOptions, examineFile } from "../scan/examine.ts";
import { type FileKind, readStamp, STAMP_BYTES } from "../scan/stamp.ts";
import { FilePacker, type PackedFiles } from "./packed-files.ts";

export type ReaderTask = ReadTask | LookTask;
export type ResultOf<Task> = Task extends ReadTask ? FilesRead : FilesSeen;

/** To read files that the index knows nothing of. */
export interface ReadTask {
  kind: "read";
  dir: string;
  root: number;
  type: string;
  /** In byte order, with `/` between them: one string crosses threads at the cost of a copy. */
  names: string;
  /** Which of them, counted from 0, are not known to be regular files. */
  special: readonly number[];
}

export interface FilesRead {
  packed: PackedFiles;
  files: number;
  entries: number;
  problems: number;
  /** A link to a directory may come to lead to a file. */
  symlinks: string[];
  /** Only the caller's own parser can judge them. */
  deferred: string[];
  unreadable: { filename: string; path: string; errno: string }[];
}

export function readFiles(task: ReadTask, options: ExamineOptions): FilesRead {
  const { dir, root, type, special } = task;
  const names = task.names.split("/");
  const packer = new FilePacker(names.length);
  const read: Omit<FilesRead, "packed"> = {
    files: names.length,
    entries: 0,
    problems: 0,
    symlinks: [],
    deferred: [],
    unreadable: [],
  };
  for (let i = 0; i < names.length; i++) {
    const filename = names[i] as string;
    const isRegular = special.length === 0 || !special.includes(i);
    try {
      const examined = examineFile(`${dir}/${filename}`, options, isRegular);
      if (examined.kind === "deferred") read.deferred.push(filename);
      else if (examined.kind === "directory") read.symlinks.push(filename);
      else if (examined.kind !== "absent") {
        if (examined.symlink) read.symlinks.push(filename);
        if (examined.kind === "entry") read.entries++;
        else read.problems++;
        packer.add({ ...examined, root, type, filename });
      }
    } catch (error) {
      if (!(error instanceof DefinitionReadError)) throw error;
      read.unreadable.push({ filename, path: error.path, errno: error.errno });
    }
  }
  return { packed: packer.take(), ...read };
}

/** To look at files, to see whether they have changed. */
export interface LookTask {
  kind: "look";
  dir: string;
  /** As in {@link ReadTask}. */
  names: string;
}

export interface FilesSeen {
  stamps: Uint8Array;
  /** 1 for a regular file, whose stamp is valid then; 0 for whatever must be looked at more closely. */
  areFiles: Uint8Array;
}

export function lookAtFiles({ dir, names }: LookTask): FilesSeen {
  const filenames = names.split("/");
  const stamps = new Uint8Array(filenames.length * STAMP_BYTES);
  const areFiles = new Uint8Array(filenames.length);
  for (let i = 0; i < filenames.length; i++) {
    if (kindOf(`${dir}/${filenames[i]}`, stamps, i * STAMP_BYTES) === "file") areFiles[i] = 1;
  }
  return { stamps, areFiles };
}

function kindOf(path: string, stamps: Uint8Array, offset: number): FileKind | "unreadable" {
  try {
    return readStamp(path, false, stamps, offset);
  } catch (error) {
    if (error instanceof DefinitionReadError) return "unreadable";
    throw error;
  }
}

/** For the thread that is given either; with what of the result changes hands. */
export function workOn(task: ReaderTask, options: ExamineOptions): [FilesRead | FilesSeen, ArrayBufferLike[]] {
  if (task.kind === "read") {
    const read = readFiles(task, options);
    return [read, [read.packed.bytes.buffer, read.packed.starts.buffer]];
  }
  const seen = lookAtFiles(task);
  return [seen, [seen.stamps.buffer, seen.areFiles.buffer]];
}
