import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: process.env["TUSSOCK_LONG"] ? 1_800_000 : 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    maxWorkers: 2,
    // Node's V8 may abort a process in which threads come and go; rarer so, where the processor has protection keys (nodejs/node#64500).
    execArgv: "Deno" in globalThis ? [] : ["--no-memory-protection-keys"],
  },
});
