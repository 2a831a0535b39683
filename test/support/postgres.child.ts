/** Starts a server, says in `server.json` where it is or why not, and ends it when the process given has ended. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type OwnServer, startServer } from "./postgres.ts";

const [, , dir, runner] = process.argv as [string, string, string, string];

let server: OwnServer | null = null;
let answer: unknown;
try {
  server = await startServer();
  answer = { port: server.port, url: server.url };
} catch (error) {
  answer = (error as Error).message;
}
const draft = join(dir, "draft.json");
writeFileSync(draft, JSON.stringify(answer));
renameSync(draft, join(dir, "server.json"));

const timer = setInterval(async () => {
  try {
    process.kill(Number(runner), 0);
  } catch {
    clearInterval(timer);
    await server?.remove();
    rmSync(dir, { recursive: true, force: true });
  }
}, 200);
