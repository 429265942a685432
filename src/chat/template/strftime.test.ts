import { expect, test } from "vitest";
import { strftime } from "./strftime.ts";

const time = new Date("2025-01-09T04:05:06Z");

test.each([
  ["%d %B %Y", "09 January 2025"],
  ["%Y-%m-%d %H:%M:%S", "2025-01-09 04:05:06"],
  ["%A, %a %b", "Thursday, Thu Jan"],
  ["100%% %q", "100% %q"],
])("%s", (format, text) => {
  expect(strftime(time, format)).toBe(text);
});
