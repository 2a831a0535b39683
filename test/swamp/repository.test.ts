import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSwampRepository } from "../../src/swamp/index.ts";
import { copyFixture } from "../support/fixtures.ts";
import { type Thing, thingCodec } from "../support/things.ts";

test("a swamp repository: lookups go from models to the automatic definitions, lists are of models alone", async () => {
  const repoDir = join(copyFixture("definitions"), "repo");
  await using repository = await openSwampRepository<Thing>({ repoDir, codec: thingCodec });
  const { definitions, autoDefinitions } = repository;
  expect(await definitions.findPath("swamp/echo", "00000001-1111-4222-8333-000000000001")).toBe(
    join(repoDir, "models/swamp/echo/hello.yaml"),
  );
  expect((await definitions.findByName("Swamp::Worker", "fleet-a-0000cafe"))?.id).toBe(
    "00000024-1111-4222-8333-000000000024",
  );
  const listed = (await definitions.findAll("swamp/worker")).length;
  expect(listed).toBe(0);
  expect(await autoDefinitions.findAllGlobal()).toEqual(await definitions.findAllGlobal());

  const { created, path } = await autoDefinitions.resolveOrCreate("swamp/worker", "fleet-new", () => ({
    id: autoDefinitions.nextId(),
    name: "fleet-new",
    version: 1,
  }));
  expect({ created, path }).toEqual({
    created: true,
    path: join(repoDir, ".swamp/auto-definitions/swamp/worker/fleet-new.yaml"),
  });
  expect((await definitions.findByNameGlobal("fleet-new"))?.type).toBe("swamp/worker");
  await definitions.save("aws/s3", { id: "new-id", name: "bucket", version: 1 });
  expect(existsSync(join(repoDir, "models/aws/s3/bucket.yaml"))).toBe(true);
});
