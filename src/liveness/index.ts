/** Process identity and its verdicts. Uses no heartbeat and imports nothing native. */
export { announceInstance, type InstanceAnnouncement } from "./announce.ts";
export { currentProcessIdentity, livenessOf, type ProcessIdentity, type Verdict } from "./identity.ts";
