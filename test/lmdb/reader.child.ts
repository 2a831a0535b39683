/**
 * One start of a server over an environment that may be damaged: `DIR`. Builds the content where it is fresh, else reads
 * and rewrites all of it, and condemns what makes no sense. Prints what it did; ends with 0 when the content is right.
 * It may well be killed by a signal on the way.
 */
import { openOwnedEnvironment } from "../../src/lmdb/index.ts";

const COUNT = 3000;
const valueFor = (i: number): string => `${i}:${"abcdefgh".repeat(i % 40)}:${i}`;

const [dir = ""] = process.argv.slice(2);
const environment = await openOwnedEnvironment({ dir, identity: { schema: 1 }, warn: (why) => console.log(why) });
try {
  const db = environment.root.openDB<string, number>({ name: "entries", keyEncoding: "uint32", encoding: "string" });
  if (environment.fresh) {
    for (let start = 0; start < COUNT; start += 500) {
      db.transactionSync(() => {
        for (let i = start; i < start + 500; i++) db.put(i, valueFor(i));
      });
    }
  }
  let read = 0;
  for (const { key, value } of db.getRange()) {
    if (key !== read || value !== valueFor(read)) throw new Error(`${key} holds something else`);
    read++;
    if (read > COUNT) break;
  }
  if (read !== COUNT) throw new Error(`${read} of ${COUNT} entries`);
  for (let i = 0; i < COUNT; i += 30) {
    db.transactionSync(() => {
      db.put(i, valueFor(i));
    });
  }
  console.log(environment.fresh ? "built" : "read");
  await environment.close();
} catch (error) {
  environment.condemn(String(error));
  console.log(`condemned: ${error}`);
  process.exit(3);
}
