/** What Deno lets a program do only when it is told to: asked for without a throw, and named where it is lacking. */

/** The environment variable's value; undefined where it is not set, and where it may not be read. */
export function environmentVariable(name: string): string | undefined {
  try {
    return process.env[name];
  } catch {
    return undefined;
  }
}

/** The flag whose lack the error, or what caused it, comes from, such as `--allow-ffi`; null for any other error. */
export function missingPermission(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at.cause) {
    // Deno's class; Node's, under `--permission`.
    if (at.name !== "NotCapable" && (at as NodeJS.ErrnoException).code !== "ERR_ACCESS_DENIED") continue;
    return /--allow-[a-z-]+/.exec(at.message)?.[0] ?? "--allow-all";
  }
  return null;
}

/** The system's error code, or `NotCapable (--allow-read)` where the runtime refuses without that flag. */
export function errnoOf(error: unknown): string {
  const permission = missingPermission(error);
  if (permission !== null) return `NotCapable (${permission})`;
  return (error as NodeJS.ErrnoException | null)?.code ?? "UNKNOWN";
}
