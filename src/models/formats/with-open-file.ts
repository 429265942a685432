import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import { RerollError } from "../../errors/reroll-error.ts";

/** Opens a file for reading, hands its descriptor and size to `use`, and closes it whatever happens. */
export function withOpenFile<Result>(path: string, use: (descriptor: number, size: number) => Result): Result {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    throw new RerollError("FILE_NOT_FOUND", `${path} does not exist. Check the path.`, { path });
  }
  if (!found.isFile()) {
    throw new RerollError("FILE_NOT_REGULAR", `${path} is not a file. Give the path of a file.`, { path });
  }
  const descriptor = openSync(path, "r");
  try {
    return use(descriptor, fstatSync(descriptor).size);
  } finally {
    closeSync(descriptor);
  }
}
