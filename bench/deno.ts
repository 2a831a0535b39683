/** The questions whose answers a server on Deno feels: `node bench/deno.ts`, with the options of `npm run bench`. */
import { main } from "./session.ts";

await main("deno");
