/**
 * Every public asynchronous call, aborted before, during and after: it rejects with the reason and has done nothing, or it
 * settles with what it has done; and nothing is left but the next call's right answer.
 */
import { abortRoom } from "./abort-room.ts";
import { rooms } from "./rooms.ts";

for (const room of rooms) abortRoom(room);
