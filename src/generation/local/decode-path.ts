/**
 * Which way an engine computes single tokens: through recorded CUDA graphs (decode-forward.ts), or operator by operator on the general path,
 * which computes every model on every device and is many times slower on a GPU.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { type DecoderFeatures, usedFeatures } from "../../models/causal-lm/decoder-features.ts";
import { deltaProblem } from "../../torch/kernels/delta-kernel.ts";
import { canAddNorm } from "../../torch/kernels/norm-kernel.ts";
import { canDecode } from "../../torch/kernels/paged-kernel.ts";
import { type PagedCache, storedHeadSize } from "./paged-cache.ts";

/** The features that decodeForward computes. Whatever else a decoder does is refused, so a new feature cannot be left out unseen. */
const computed: ReadonlySet<string> = new Set<keyof DecoderFeatures>([
  "hasQkvBias",
  "hasOutputBias",
  "hasMlpBias",
  "hasHeadNorm",
  "hasJointHeadNorm",
  "slidingWindow",
  "fullLayers",
  "localRopeTheta",
  "unrotatedLayers",
  "rotarySize",
  "hasNeighborRotation",
  "attentionScale",
  "attentionSoftCap",
  "hasAttentionSinks",
  "hasAttentionGate",
  "linearAttention",
  "scoreSoftCap",
  "embeddingScale",
  "hasOffsetNorms",
  "hasOutputNorms",
  "hasBareInputs",
  "hasJointQkv",
  "hasJointGateUp",
  "hasGeluGate",
  "experts",
]);

/** The features a model uses that decodeForward does not compute. */
function missingFeatures({ features }: CausalLmConfig): string[] {
  return usedFeatures(features).filter((name) => !computed.has(name));
}

/** Throws for a model with features that decodeForward does not compute. */
export function expectComputed(config: CausalLmConfig): void {
  const missing = missingFeatures(config);
  if (missing.length === 0) return;
  throw new RerollError(
    "UNSUPPORTED_FEATURE",
    `The CUDA decode path does not compute ${missing.join(", ")}, which this ${config.family} model uses. ` +
      `It computes ${[...computed].join(", ")}. Run the model through CausalLm.forward, as ModelRunner does.`,
    { family: config.family, missing },
  );
}

/** Where the cache of an engine is, and the size of its blocks. */
type CachePlace = Pick<PagedCache, "dtype" | "device" | "blockSize">;

/** Why decodeForward cannot serve a model over this cache, in words that complete "because"; null where it can. */
export function decodeProblem(config: CausalLmConfig, { dtype, device, blockSize }: CachePlace): string | null {
  if (!device.startsWith("cuda")) return "it is not on a GPU";
  if (!/^b?float16$/.test(dtype)) return `its weights are ${dtype}, and the CUDA decode path is for 16 bits`;
  const missing = missingFeatures(config);
  if (missing.length > 0) return `the CUDA decode path does not compute ${missing.join(", ")}`;
  if (!canDecode(storedHeadSize(config.headSize, dtype, device), blockSize))
    return `its heads of ${config.headSize} values in blocks of ${blockSize} tokens do not fit the kernels, which take heads of up to 256 in blocks of 16`;
  if (!canAddNorm(config.width)) return `its width of ${config.width} does not fit the kernels`;
  const { linearAttention } = config.features;
  return linearAttention === null ? null : deltaProblem(linearAttention);
}

/** The problem of an engine that is split over ranks. */
export const splitDecoding = "it is split over ranks, whose sums within a layer are not recorded";

/** How an engine with this problem decodes, in words that follow "decodes"; null on the CPU, where there is but one way. */
export function decodingWords(device: string, problem: string | null): string | null {
  if (!device.startsWith("cuda")) return null;
  return problem === null
    ? "through CUDA graphs"
    : `operator by operator, many times slower than through CUDA graphs: ${problem}`;
}
