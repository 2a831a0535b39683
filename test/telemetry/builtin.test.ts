import { expect, onTestFinished, test } from "vitest";
import { isDeno, spawnChild } from "../support/spawn.ts";

test.skipIf(!isDeno)("Deno's own telemetry is found without any package", async () => {
  const child = spawnChild(new URL("./builtin.child.ts", import.meta.url), [], {
    env: {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "console",
      OTEL_METRIC_EXPORT_INTERVAL: "50",
      OTEL_BSP_SCHEDULE_DELAY: "50",
    },
  });
  // Killed, since Deno may hang in an orderly exit while it exports that often.
  onTestFinished(() => void child.process.kill("SIGKILL"));
  // The exporter prints a block for each span and metric, on standard error.
  let printed = "";
  await new Promise<void>((resolve) => {
    child.process.stderr?.on("data", (text: string) => {
      printed += text;
      if (
        /tussock\.transition\.waiting[\s\S]*?tussock\.queue=outer\} value=1/.test(printed) &&
        printed.includes("tussock.queue: outer")
      )
        resolve();
    });
  });
  const spans = [
    ...printed.matchAll(
      /^SPAN tussock\.transition \[\w+\/(\w+)\](?:.*\n +parent: (\w+))?[\s\S]*?tussock\.queue: (\w+)/gm,
    ),
  ];
  const [inner, outer] = ["inner", "outer"].map((queue) => spans.find((span) => span[3] === queue));
  expect(inner?.[2]).toMatch(/^[0-9a-f]{16}$/);
  expect(inner?.[2]).toBe(outer?.[1]);
  expect(printed).toContain("scope: tussock@");
  expect(printed).toContain("tussock.key_kind: lease");
});
