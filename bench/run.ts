/** `npm run bench`: every question, on Node. `npm run bench -- --help` says how. */
import { main } from "./session.ts";

await main("node");
