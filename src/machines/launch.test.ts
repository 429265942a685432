import { expect, test } from "vitest";
import { firstNode, isLeftBehind, jobOf, readLaunch } from "./launch.ts";

const torchrun = {
  RANK: "3",
  WORLD_SIZE: "4",
  LOCAL_RANK: "1",
  LOCAL_WORLD_SIZE: "2",
  MASTER_ADDR: "10.0.0.1",
  MASTER_PORT: "29500",
};

test("torchrun says everything; the controller listens beside the store that torchrun serves itself", () => {
  const place = { rank: 3, worldSize: 4, localRank: 1, localWorldSize: 2, host: "10.0.0.1" };
  expect(readLaunch(torchrun)).toEqual({ ...place, port: 29500 });
  expect(readLaunch({ ...torchrun, TORCHELASTIC_USE_AGENT_STORE: "True" })).toEqual({ ...place, port: 29501 });
});

test("srun has names of its own, and the first node of the step is that of rank 0; its batch script is not launched yet", () => {
  const batch = { SLURM_PROCID: "0", SLURM_NTASKS: "2", SLURM_JOB_NODELIST: "gpu[03-07,9]" };
  expect(readLaunch(batch)).toBeNull();
  expect(readLaunch({ ...batch, SLURM_STEP_ID: "0", SLURM_PROCID: "1", SLURM_LOCALID: "0" })).toEqual({
    ...{ rank: 1, worldSize: 2, localRank: 0, localWorldSize: 1 },
    ...{ host: "gpu03", port: 29500 },
  });
});

test("mpirun has names of its own too", () => {
  const openMpi = { OMPI_COMM_WORLD_RANK: "1", OMPI_COMM_WORLD_SIZE: "2", OMPI_COMM_WORLD_LOCAL_RANK: "1" };
  expect(readLaunch({ ...openMpi, MASTER_ADDR: "a" })).toMatchObject({
    rank: 1,
    worldSize: 2,
    localRank: 1,
    host: "a",
  });
  expect(readLaunch({ PMI_RANK: "0", PMI_SIZE: "2", MASTER_ADDR: "a" })).toMatchObject({ rank: 0, worldSize: 2 });
});

test("the first node of a list is read as Slurm writes lists", () => {
  expect(["n0", "n[0-1]", "n[003,7-9]-ib,m[1-2]", "a,b"].map(firstNode)).toEqual(["n0", "n0", "n003-ib", "a"]);
});

test("a job that may be started again has a name: that of Slurm, or what the driver of a job of Ray says", () => {
  expect(jobOf({})).toBe("");
  expect(jobOf({ SLURM_CLUSTER_NAME: "a", SLURM_JOB_ID: "7" })).toBe("slurm a 7");
  expect(jobOf({ REROLL_JOB: "ray /shared/jobs/lake" })).toBe("ray /shared/jobs/lake");
});

test("torchrun and the actors of Ray leave behind what they have started; a shell may end as it likes", () => {
  expect(isLeftBehind({ ...torchrun, TORCHELASTIC_RUN_ID: "none" })).toBe(true);
  expect(isLeftBehind({ REROLL_JOB: "ray /shared/jobs/lake" })).toBe(true);
  expect(isLeftBehind({ RANK: "0", WORLD_SIZE: "2", SLURM_JOB_ID: "7" })).toBe(false);
});

test("one process alone is no launch, and numbers that cannot be are refused by name", () => {
  expect(readLaunch({})).toBeNull();
  expect(readLaunch({ ...torchrun, RANK: "0", WORLD_SIZE: "1" })).toBeNull();
  expect(() => readLaunch({ ...torchrun, RANK: "4" })).toThrow("RANK must be less than WORLD_SIZE: got 4 and 4.");
  expect(() => readLaunch({ ...torchrun, RANK: "x" })).toThrow('RANK must be a whole number of at least 0: got "x".');
  expect(() => readLaunch({ ...torchrun, MASTER_ADDR: undefined })).toThrow("RANK is set, and MASTER_ADDR is not.");
});
