/** Builds the addon of a packed folder against the libtorch of this machine, when it is not built yet. */
import { fileURLToPath } from "node:url";
import { addonReason, buildAddon, checkoutPlace } from "./setup/build-addon.mjs";
import { findCudaHeaders } from "./setup/find-cuda-headers.mjs";
import { findLibtorch } from "./setup/find-libtorch.mjs";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const { libtorch, looked } = findLibtorch();
if (libtorch === null) {
  console.error(`No libtorch found. Looked at: ${looked.join("; ")}. Set REROLL_LIBTORCH to its folder.`);
  process.exit(1);
}
const target = { libtorch, cudaInclude: libtorch.cuda ? findCudaHeaders(libtorch) : null };
const reason = addonReason(checkoutPlace(root), target);
if (reason !== null) {
  const start = performance.now();
  await buildAddon(checkoutPlace(root), target, { log: `${root}/build/native.log` });
  const { version, root: folder } = libtorch;
  console.log(
    `addon built in ${((performance.now() - start) / 1000).toFixed(0)} s against libtorch ${version} at ${folder}`,
  );
}
