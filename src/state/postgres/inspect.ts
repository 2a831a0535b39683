/** Whether what is stored is whole: the checksum of every record, and every entry and counter against the records. */
import { nextTurn } from "../../slices.ts";
import type { VerifyProblem } from "../model.ts";
import { checksum } from "../row.ts";
import type { Database } from "./database.ts";
import { ROW, uncheckedRow } from "./rows.ts";

/** Rows whose checksums are made between two turns of the event loop. */
const PAGE = 256;
const MOST_PROBLEMS = 1_000;
/** Of one statement, which may go through millions of rows. */
const DEADLINE_MS = 3_600_000;

export async function inspect(
  database: Database,
  index: number,
  signal: AbortSignal | undefined,
): Promise<{ records: number; problems: VerifyProblem[] }> {
  const problems: VerifyProblem[] = [];
  const scope = { signal, until: performance.now() + DEADLINE_MS };
  const { schema } = database;
  let records = 0;
  for (let after = 0; ; ) {
    const statement = `SELECT idx, ${ROW} FROM ${schema}.records_from($1, $2)`;
    const page = await database.read(statement, [after, PAGE], scope);
    for (const [owner, ...columns] of page) {
      const row = uncheckedRow(columns);
      after = row.rec;
      if (Number(owner) !== index) continue;
      records++;
      if (checksum(index, row) !== row.sum)
        problems.push({ part: "record", id: row.id, message: "the record does not fit its checksum" });
    }
    if (page.length < PAGE) break;
    await nextTurn();
  }
  const found = await database.read(`SELECT * FROM ${schema}.inspect($1, $2)`, [index, MOST_PROBLEMS], scope);
  for (const [part, id, message] of found as [VerifyProblem["part"], string | null, string][])
    problems.push({ part, message, ...(id === null ? {} : { id }) });
  return { records, problems: problems.slice(0, MOST_PROBLEMS) };
}
