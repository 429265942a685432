/** Which numbers of foreign code can be trained on and shown. */

/** The square of a larger reward, which baselines and deviations take, overflows float32. */
const MAX_REWARD = 1e18;

/** More names than this would drown everything else in a run's metrics. */
const MAX_NAMES = 256;

/** Whether a reward is a number that can be trained on. */
export function isSoundReward(reward: unknown): reward is number {
  return typeof reward === "number" && Math.abs(reward) <= MAX_REWARD;
}

/** What a sound reward is, for messages. */
export const SOUND_REWARD = "a finite number between -1e18 and 1e18";

/** A copy of named numbers; null where the record is none, has more than a few hundred names, or a value is not finite. */
export function copyNumbers(record: unknown): Readonly<Record<string, number>> | null {
  if (typeof record !== "object" || record === null) return null;
  const entries: [string, number][] = [];
  for (const name in record) {
    if (!Object.hasOwn(record, name)) continue;
    const value: unknown = Reflect.get(record, name);
    if (typeof value !== "number" || !Number.isFinite(value) || entries.length === MAX_NAMES) return null;
    entries.push([name, value]);
  }
  return Object.fromEntries(entries);
}
