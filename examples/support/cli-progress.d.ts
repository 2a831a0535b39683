declare module "cli-progress" {
  interface Options {
    format?: string;
    hideCursor?: boolean;
    clearOnComplete?: boolean;
  }
  class SingleBar {
    constructor(options: Options, preset?: Options);
    start(total: number, value: number): void;
    setTotal(total: number): void;
    update(value: number): void;
    stop(): void;
  }
  const cliProgress: { SingleBar: typeof SingleBar; Presets: { shades_classic: Options } };
  export = cliProgress;
}
