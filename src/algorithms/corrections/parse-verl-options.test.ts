import { expect, test } from "vitest";
import { parseVerlOptions, parseVerlOverrides } from "./parse-verl-options.ts";

test("without options there is no correction, as in verl's YAML", () => {
  expect(parseVerlOptions({})).toEqual({
    correction: { convention: "verl", importance: null, rejections: {} },
    isBypass: false,
    lossType: "ppo_clip",
  });
});

test("text and typed values mean the same", () => {
  const typed = parseVerlOptions({
    rollout_is: "sequence",
    rollout_is_threshold: 2,
    rollout_is_batch_normalize: true,
    rollout_rs: null,
    rollout_rs_threshold: null,
    bypass_mode: true,
    loss_type: "reinforce",
  });
  const text = parseVerlOverrides([
    "algorithm.adv_estimator=rloo",
    "algorithm.rollout_correction.rollout_is=sequence",
    "algorithm.rollout_correction.rollout_is_threshold=2.0",
    "algorithm.rollout_correction.rollout_is_batch_normalize=true",
    "algorithm.rollout_correction.rollout_rs=null",
    "algorithm.rollout_correction.rollout_rs_threshold=null",
    "+algorithm.rollout_correction.bypass_mode=true",
    "algorithm.rollout_correction.loss_type=reinforce",
  ]);
  expect(typed.correction.importance).toEqual({ level: "sequence", threshold: 2, isSelfNormalized: true });
  expect(text.correction.importance).toEqual({ level: "sequence", threshold: "2.0", isSelfNormalized: true });
  expect(text).toMatchObject({ isBypass: true, lossType: "reinforce" });
});

test("criteria and thresholds are lists; one threshold serves all, and a name counts once", () => {
  const rejections = (rollout_rs: string, rollout_rs_threshold: string | number) =>
    parseVerlOptions({ rollout_rs, rollout_rs_threshold }).correction.rejections;
  expect(rejections("token_k1, seq_max_k2", "0.6_1.6, 2.5")).toEqual({ token_k1: "0.6_1.6", seq_max_k2: "2.5" });
  expect(rejections("token_k2,seq_max_k2,token_k2", 2.5)).toEqual({ token_k2: "2.5", seq_max_k2: "2.5" });
});

test("quotes and backslashes of a shell are taken off", () => {
  const { correction } = parseVerlOverrides([
    "algorithm.rollout_correction.rollout_rs=\\'token_k1,seq_max_k2\\'",
    "algorithm.rollout_correction.rollout_rs_threshold=\\'0.6_1.6,2.5\\'",
  ]);
  expect(correction.rejections).toEqual({ token_k1: "0.6_1.6", seq_max_k2: "2.5" });
});

test("a threshold for weights without a level has no effect: verl's defaults carry one", () => {
  expect(parseVerlOptions({ rollout_is: null, rollout_is_threshold: "0.5_2.0" }).correction.importance).toBeNull();
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ["criteria without thresholds", { rollout_rs: "token_k1" }, /rollout_rs and rollout_rs_threshold go together/],
  ["thresholds without criteria", { rollout_rs_threshold: 2 }, /rollout_rs and rollout_rs_threshold go together/],
  [
    "too many thresholds",
    { rollout_rs: "token_k1", rollout_rs_threshold: "2,3" },
    /one threshold, or one for each of token_k1/,
  ],
  ["an unknown level", { rollout_is: "group" }, /rollout_is must be null, token or sequence: got "group"/],
  [
    "a threshold that is a flag",
    { rollout_is: "token", rollout_is_threshold: true },
    /rollout_is_threshold must be a number/,
  ],
  ["an unknown key", { rollout_si: "token" }, /rollout_si must be one of rollout_is,/],
  ["an unknown loss", { loss_type: "gspo" }, /loss_type must be ppo_clip or reinforce: got "gspo"/],
  ["reinforce without bypass", { loss_type: "reinforce" }, /loss_type: reinforce is a loss of bypass mode/],
  ["a flag that is none", { bypass_mode: "yes" }, /bypass_mode must be true or false: got "yes"/],
])("%s are refused", (_, options, message) => {
  expect(() => parseVerlOptions(options)).toThrow(message);
});
