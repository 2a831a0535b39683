/** Prints what is wrong and ends the process accordingly. */
export function report(title: string, problems: readonly string[]): void {
  for (const problem of problems) console.error(`✗ ${problem}`);
  if (problems.length === 0) console.log(`✓ ${title}`);
  else process.exitCode = 1;
}
