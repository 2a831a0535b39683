/** What a measurement is meant to reach. */
export interface Goal {
  text: string;
  /** What was measured, for people. */
  value: string;
  reached: boolean;
}

export function printGoals(goals: readonly Goal[]): void {
  console.log();
  for (const { text, value, reached } of goals) console.log(`${reached ? "✓" : "✗"} ${text}: ${value}`);
}
