/** Reads some files of a directory that the index knows nothing of, on whichever thread, and packs what it finds. */
import { DefinitionReadError } from "../errors.ts";
import { type ExamineOptions, examineFile } from "../scan/examine.ts";
import { FilePacker, type PackedFiles } from "./packed-files.ts";

export interface ReadTask {
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
