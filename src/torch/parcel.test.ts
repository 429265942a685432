import { expect, test } from "vitest";
import { tensor } from "./create.ts";
import { memoryStats } from "./memory.ts";
import { discardParcel, numWaitingParcels, receiveTensor, sendTensor } from "./parcel.ts";

test("a received tensor is the sent memory, outside any graph", () => {
  const sent = tensor([1, 2]);
  sent.requiresGrad = true;
  const received = receiveTensor(structuredClone(sendTensor(sent)));
  expect(received.toArray()).toEqual([1, 2]);
  expect(received.storageAddress).toBe(sent.storageAddress);
  expect(received.requiresGrad).toBe(false);
  received.writeFrom(new Float32Array([5, 6]));
  expect(sent.toArray()).toEqual([5, 6]);
});

test("a parcel can be received once", () => {
  const parcel = sendTensor(tensor([1]));
  receiveTensor(parcel);
  expect(() => receiveTensor(parcel)).toThrow(/A sent tensor can be received once/);
  expect(() => discardParcel(parcel)).toThrow(/there is no tensor number/);
});

test("a parcel holds the memory of a disposed tensor until it is discarded", () => {
  const waiting = numWaitingParcels();
  const before = memoryStats().liveBytes;
  const sent = tensor([1, 2, 3]);
  const parcel = sendTensor(sent);
  expect(parcel.description).toBe("float32[3]");
  sent.dispose();
  expect(numWaitingParcels()).toBe(waiting + 1);
  expect(memoryStats().liveBytes).toBeGreaterThan(before);
  discardParcel(parcel);
  expect(numWaitingParcels()).toBe(waiting);
  expect(memoryStats().liveBytes).toBe(before);
});

test("a parcel of another process, and a number that is none, are refused", () => {
  const parcel = sendTensor(tensor([1]));
  expect(() => receiveTensor({ ...parcel, processId: 1 })).toThrow(/was sent in process 1 and this is process/);
  expect(() => receiveTensor({ ...parcel, number: 1e9 })).toThrow(/there is no tensor number 1000000000/);
  expect(() => receiveTensor({ ...parcel, number: Number.NaN })).toThrow(/must be an integer/);
  discardParcel(parcel);
});

test("a disposed tensor cannot be sent", () => {
  const gone = tensor([1]);
  gone.dispose();
  expect(() => sendTensor(gone)).toThrow(/is a disposed tensor/);
});
