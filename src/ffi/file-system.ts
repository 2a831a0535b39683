/** What kind of file system a directory lies on: whether locks and memory maps are safe there, and whether it tells. */
import { statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { missingPermission } from "../permissions.ts";

export interface FileSystem {
  /** As `stat -f` names it, such as `ext4` or `nfs`; `0x…` for a type that is not in the table. */
  readonly name: string;
  /** `f_type` of statfs(2), unsigned; 0 where the system has none. */
  readonly type: number;
  /**
   * Served by another machine or by a user-space process (NFS, SMB, FUSE, 9p …): locks may not reach everybody who
   * writes there, and a memory map does not follow what others write.
   */
  readonly network: boolean;
  /** inotify reports every change there. False where it is not known to: then an index is bounded, not wrong. */
  readonly reportsEvents: boolean;
}

/** From statfs(2), include/uapi/linux/magic.h and coreutils' `stat -f`. */
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xfe534d42, "smb2"],
  [0xff534d42, "cifs"],
  [0x65735546, "fuse"],
  [0x01021997, "9p"],
  [0x00c36400, "ceph"],
  [0x0bd00bd0, "lustre"],
  [0x5346414f, "afs"],
  [0x6b414653, "kafs"],
  [0x73757245, "coda"],
  [0x564c, "ncp"],
  [0x47504653, "gpfs"],
  [0x7461636f, "ocfs2"],
  [0x01161970, "gfs2"],
  [0x19830326, "beegfs"],
  [0xaad7aaea, "panfs"],
  [0x20030528, "orangefs"],
  [0x61636673, "acfs"],
  [0xbeefdead, "snfs"],
  [0x013111a8, "ibrix"],
  [0x786f4256, "vboxsf"],
  [0x7c7c6673, "prl_fs"],
  [0xbacbacbc, "vmhgfs"],
  [0x00c0ffee, "hostfs"],
]);

const LOCAL: ReadonlyMap<number, string> = new Map([
  [0xef53, "ext4"],
  [0x58465342, "xfs"],
  [0x9123683e, "btrfs"],
  [0xca451a4e, "bcachefs"],
  [0x2fc12fc1, "zfs"],
  [0xf2f52010, "f2fs"],
  [0x01021994, "tmpfs"],
  [0x858458f6, "ramfs"],
  [0x794c7630, "overlay"],
  [0x52654973, "reiserfs"],
  [0x3153464a, "jfs"],
  [0x24051905, "ubifs"],
  [0x4d44, "vfat"],
  [0x2011bab0, "exfat"],
  [0x7366746e, "ntfs3"],
]);

/**
 * The file system of `dir`, or of its nearest ancestor that exists. Answers from statfs(2), without an FFI (2 µs).
 * Only Linux says what a file system is by number: elsewhere the answer is `unknown`, not networked (a UNC path is).
 */
export function fileSystemOf(dir: string): FileSystem {
  const type = process.platform === "linux" ? typeOf(resolve(dir)) : 0;
  if (typeof type === "string") return { ...classify(0), name: `a file system that may not be asked about (${type})` };
  return type === 0 && resolve(dir).startsWith("\\\\") ? { ...classify(0), network: true } : classify(type);
}

/** A write that finds less than this may have been the one that filled the disk. */
const FULL_BELOW_BYTES = 262_144;

/** Whether there is next to no room where `dir` lies: what a full disk makes of a write is an I/O error, often. */
export function isDiskFull(dir: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize < FULL_BELOW_BYTES;
  } catch {
    return false;
  }
}

/** What is known of a file system by its `f_type`. */
export function classify(type: number): FileSystem {
  const network = NETWORK.get(type);
  if (network !== undefined) return { name: network, type, network: true, reportsEvents: false };
  const local = LOCAL.get(type);
  if (local !== undefined) return { name: local, type, network: false, reportsEvents: true };
  const name = type === 0 ? "unknown" : `0x${type.toString(16)}`;
  return { name, type, network: false, reportsEvents: false };
}

/** The flag that it takes to ask, where that is lacking. */
function typeOf(dir: string): number | string {
  for (let at = dir; ; at = dirname(at)) {
    try {
      return statfsSync(at).type >>> 0;
    } catch (error) {
      const permission = missingPermission(error);
      if (permission !== null) return permission;
      const code = (error as NodeJS.ErrnoException).code;
      if ((code !== "ENOENT" && code !== "ENOTDIR") || dirname(at) === at) return 0;
    }
  }
}
