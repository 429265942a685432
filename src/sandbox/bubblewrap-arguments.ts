/**
 * The arguments of bubblewrap: what the sandbox is made of.
 *
 * Every namespace is new; the file system holds the interpreter, its libraries, the packages asked for and a few devices, all
 * read-only. There is no shell, no /etc but the linker's files, no home. /tmp and /dev/shm are empty folders, over which
 * each run mounts its own.
 */
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { dirname } from "node:path";

/** Where shared libraries and Python's own modules lie. Not all of /usr: a project may live in /usr/src. */
const LIBRARY_FOLDERS = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
/** Links to /usr on most systems, folders on the others. */
const ROOT_FOLDERS = ["/lib", "/lib64"];
const LINKER_FILES = ["/etc/ld.so.cache", "/etc/alternatives"];
const DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/**
 * All that a program finds in its environment; bubblewrap is started with an empty one.
 * One thread per library: more would count as processes, and the limit of memory would not leave room for their stacks.
 */
const ENVIRONMENT = {
  PATH: "/usr/bin",
  HOME: "/tmp",
  LANG: "C.UTF-8",
  // The order of sets of strings is the same in every run.
  PYTHONHASHSEED: "0",
  PYTHONUTF8: "1",
  MALLOC_ARENA_MAX: "1",
  OMP_NUM_THREADS: "1",
  OPENBLAS_NUM_THREADS: "1",
};

interface BubblewrapOptions {
  readonly python: string;
  readonly packages: readonly string[];
}

export function bubblewrapArguments({ python, packages }: BubblewrapOptions): string[] {
  // At a place of their own: a run has its own /tmp, which would hide folders that lie there.
  const shown = packages.map((path, index) => ({ path, place: `/packages/${index}` }));
  const environment = { ...ENVIRONMENT, PYTHONPATH: shown.map(({ place }) => place).join(":") };
  return [
    ...["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1"],
    // The server needs it to make a namespace for each run; it counts in the sandbox only.
    ...["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"],
    ...["--hostname", "sandbox"],
    ...Object.entries(environment).flatMap(([name, value]) => (value === "" ? [] : ["--setenv", name, value])),
    ...[...LIBRARY_FOLDERS, ...LINKER_FILES].flatMap((path) => ["--ro-bind-try", path, path]),
    ...ROOT_FOLDERS.filter((path) => existsSync(path)).flatMap(showRootFolder),
    ...["--ro-bind", interpreterFolder(python), interpreterFolder(python)],
    ...shown.flatMap(({ path, place }) => ["--ro-bind", path, place]),
    ...["--proc", "/proc", "--dir", "/dev", "--dir", "/dev/shm", "--dir", "/tmp"],
    ...DEVICES.flatMap((path) => ["--dev-bind", path, path]),
    ...["--symlink", "/proc/self/fd", "/dev/fd"],
    ...["stdin", "stdout", "stderr"].flatMap((name, index) => ["--symlink", `/proc/self/fd/${index}`, `/dev/${name}`]),
    ...["--remount-ro", "/", "--chdir", "/"],
  ];
}

function showRootFolder(path: string): string[] {
  return lstatSync(path).isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path];
}

/** An interpreter of the system needs its own file alone; its modules lie in the library folders. */
function interpreterFolder(python: string): string {
  return python.startsWith("/usr/") ? python : dirname(dirname(python));
}
