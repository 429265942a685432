/**
 * Whether the libtorch in this process is the one that the addon was built against.
 *
 * In: the record that setup left (build/native/libtorch.json) and the files that are mapped into the process. Out: a
 * sentence about what does not fit, or null. Another libtorch often loads, and then crashes or computes nonsense: its
 * classes have other layouts. LD_LIBRARY_PATH and an upgrade in place are the usual reasons.
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/** The libtorch that the addon was built against. Records of older setups have no librarySize. */
interface BuiltAgainst {
  readonly version: string;
  readonly libDir: string;
  /** Bytes of libtorch_cpu. */
  readonly librarySize?: number;
}

/** The libtorch_cpu that this process has loaded. */
interface LoadedLibtorch {
  readonly path: string;
  readonly size: number;
}

/** The libtorch that is loaded, which only Linux can tell; null elsewhere. */
export function findLoadedLibtorch(maps = "/proc/self/maps"): LoadedLibtorch | null {
  if (!existsSync(maps)) return null;
  const path = /\/\S.*\/libtorch_cpu\.so\S*/.exec(readFileSync(maps, "utf8"))?.[0];
  return path === undefined || !existsSync(path) ? null : { path, size: statSync(path).size };
}

/** A description of the difference, or null if both are the same. */
export function libtorchMismatch(built: BuiltAgainst, loaded: LoadedLibtorch): string | null {
  if (dirname(realpathSync(loaded.path)) !== folderOf(built.libDir)) {
    return `the addon was built against libtorch ${built.version} in ${built.libDir}, but ${loaded.path} was loaded`;
  }
  if (built.librarySize !== undefined && built.librarySize !== loaded.size) {
    return `${loaded.path} has changed since the addon was built against it (libtorch ${built.version}, ${built.librarySize} bytes; now ${loaded.size})`;
  }
  return null;
}

/** The folder with the library itself: Debian's python3-torch has links to it in a folder of its own. */
function folderOf(libDir: string): string {
  const library = join(libDir, "libtorch_cpu.so");
  if (existsSync(library)) return dirname(realpathSync(library));
  return existsSync(libDir) ? realpathSync(libDir) : libDir;
}
