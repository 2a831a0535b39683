/** How far the sweeps under way have come together, for whoever listens. */
import type { SweepResult } from "./sweep.ts";

export interface SweepListener {
  /** Of all sweeps under way; also when one of them has ended. */
  progress(files: number, read: number): void;
  swept(type: string, result: SweepResult): void;
}

/** One sweep's share. */
export interface SweepProgress {
  onFiles(files: number, read: number): void;
  /** Null: it has come to nothing. */
  end(result: SweepResult | null): void;
}

export class SweepListeners {
  readonly #listeners = new Set<SweepListener>();
  #files = 0;
  #read = 0;

  /** Tells of the sweeps to come, until the function returned is called. */
  add(listener: SweepListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  begin(type: string): SweepProgress {
    let own = { files: 0, read: 0 };
    const count = (files: number, read: number): void => {
      this.#files += files - own.files;
      this.#read += read - own.read;
      own = { files, read };
    };
    return {
      onFiles: (files, read) => {
        count(files, read);
        for (const listener of this.#listeners) listener.progress(this.#files, this.#read);
      },
      end: (result) => {
        count(0, 0);
        if (result === null) return;
        for (const listener of this.#listeners) {
          listener.swept(type, result);
          listener.progress(this.#files, this.#read);
        }
      },
    };
  }
}
