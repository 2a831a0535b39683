/** No public asynchronous call escapes: each is aborted by these tests, and its point of no return is in the manual. */
import { describe, expect, test } from "vitest";
import { pointsOfNoReturn } from "./manual.ts";
import { publicCalls } from "./public-calls.ts";
import { nameOf, rooms } from "./rooms.ts";

const CALLED_BY_US = "somebody else writes it, and it is called by this library";
const CLOSES = "waits for what runs, and leaves nothing to give up";

/** Asynchronous, public, and not aborted here: why. */
const OTHERS: Record<string, string> = {
  "ControlPlaneStore.close": CLOSES,
  "PostgresClient.end": CALLED_BY_US,
  "DefinitionIndex.close": CLOSES,
  "InstanceAnnouncement.close": CLOSES,
  "StateIndex.close": CLOSES,
  "SwampRepository.close": CLOSES,
  announceInstance: "has announced when it returns its promise",
  "ArtifactMirrorOptions.onWillWrite": CALLED_BY_US,
  "ArtifactMirrorOptions.onWritten": CALLED_BY_US,
  "DefinitionCodec.encode": CALLED_BY_US,
  "DefinitionRepositoryOptions.onChange": CALLED_BY_US,
  "DefinitionRepositoryOptions.onWillWrite": CALLED_BY_US,
  "RunSource.end": CALLED_BY_US,
  "RunSource.running": CALLED_BY_US,
  "StateMirror.onWillWrite": CALLED_BY_US,
  "StateMirror.onWritten": CALLED_BY_US,
  "StateMirror.write": CALLED_BY_US,
  "SwampRepositoryOptions.onChange": CALLED_BY_US,
  "SwampRepositoryOptions.onWillWrite": CALLED_BY_US,
  "ConformanceCase.run": "a test",
  "ControlPlaneSubject.open": CALLED_BY_US,
  "ControlPlaneSubject.remove": CALLED_BY_US,
  "SubjectClock.set": CALLED_BY_US,
  "StateIndexSubject.open": CALLED_BY_US,
  "StateIndexSubject.remove": CALLED_BY_US,
};

const covered = [...new Set(rooms.flatMap((room) => Object.keys(room.calls).map(nameOf)))].sort();

describe("the calls that are aborted", () => {
  const calls = publicCalls();

  test("are all that the package's types offer, but for those that are known to need none", () => {
    const wanted = calls.map(({ name }) => name).filter((name) => !(name in OTHERS));
    // It returns what it was given, so that no type tells that its `pullChanged` takes a signal.
    expect(covered).toEqual([...wanted, "noticeChanges"].sort());
  });

  test("are all that take a signal, but for what others write", () => {
    const spared = calls.filter(({ name, takesSignal }) => takesSignal && !covered.includes(name));
    expect(spared.map(({ name }) => name)).toEqual(["StateIndexSubject.open"]);
  });

  test("those that are known to need none are there", () => {
    const names = calls.map(({ name }) => name);
    expect(Object.keys(OTHERS).filter((name) => !names.includes(name))).toEqual([]);
  });

  test("are those of which the manual names the point of no return", () => {
    expect([...pointsOfNoReturn().keys()].sort()).toEqual(covered);
  });
});
