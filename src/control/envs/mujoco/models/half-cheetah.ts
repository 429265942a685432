/**
 * The body of HalfCheetah as MuJoCo's XML: a planar cheetah of nine degrees of freedom, six of them driven.
 *
 * Sizes in meters, angles in radians, all masses scaled so that they sum to 14 kg. The numbers are those of Gymnasium's model.
 */

/** One part of a leg: where it hangs on the part above, the spring in its joint, and its capsule. */
interface LegPart {
  readonly name: string;
  readonly at: string;
  readonly range: string;
  readonly stiffness: number;
  readonly damping: number;
  readonly gear: number;
  readonly center: string;
  readonly lean: number;
  readonly halfLength: number;
}

const backLeg: readonly LegPart[] = [
  {
    name: "bthigh",
    at: "-0.5 0 0",
    range: "-0.52 1.05",
    stiffness: 240,
    damping: 6,
    gear: 120,
    center: "0.1 0 -0.13",
    lean: -3.8,
    halfLength: 0.145,
  },
  {
    name: "bshin",
    at: "0.16 0 -0.25",
    range: "-0.785 0.785",
    stiffness: 180,
    damping: 4.5,
    gear: 90,
    center: "-0.14 0 -0.07",
    lean: -2.03,
    halfLength: 0.15,
  },
  {
    name: "bfoot",
    at: "-0.28 0 -0.14",
    range: "-0.4 0.785",
    stiffness: 120,
    damping: 3,
    gear: 60,
    center: "0.03 0 -0.097",
    lean: -0.27,
    halfLength: 0.094,
  },
];

const frontLeg: readonly LegPart[] = [
  {
    name: "fthigh",
    at: "0.5 0 0",
    range: "-1 0.7",
    stiffness: 180,
    damping: 4.5,
    gear: 120,
    center: "-0.07 0 -0.12",
    lean: 0.52,
    halfLength: 0.133,
  },
  {
    name: "fshin",
    at: "-0.14 0 -0.24",
    range: "-1.2 0.87",
    stiffness: 120,
    damping: 3,
    gear: 60,
    center: "0.065 0 -0.09",
    lean: -0.6,
    halfLength: 0.106,
  },
  {
    name: "ffoot",
    at: "0.13 0 -0.18",
    range: "-0.5 0.5",
    stiffness: 60,
    damping: 1.5,
    gear: 30,
    center: "0.045 0 -0.07",
    lean: -0.6,
    halfLength: 0.07,
  },
];

/** The model. Positions: x, height, pitch, back thigh, shin, foot, front thigh, shin, foot. */
export const halfCheetahModel = `
<mujoco model="half-cheetah">
  <compiler angle="radian" inertiafromgeom="true" settotalmass="14"/>
  <option timestep="0.01"/>
  <size memory="256K"/>
  <default>
    <joint type="hinge" axis="0 1 0" armature="0.1" limited="true" solreflimit="0.02 1" solimplimit="0 0.8 0.03"/>
    <geom type="capsule" contype="1" conaffinity="0" condim="3" friction="0.4 0.1 0.1" solref="0.02 1" solimp="0 0.8 0.01"/>
    <motor ctrllimited="true" ctrlrange="-1 1"/>
    <default class="root">
      <joint armature="0" limited="false"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="40 40 40" conaffinity="1"/>
    <body name="torso" pos="0 0 0.7">
      <joint name="rootx" class="root" type="slide" axis="1 0 0"/>
      <joint name="rootz" class="root" type="slide" axis="0 0 1"/>
      <joint name="rooty" class="root"/>
      <geom name="torso" fromto="-0.5 0 0 0.5 0 0" size="0.046"/>
      <geom name="head" pos="0.6 0 0.1" axisangle="0 1 0 0.87" size="0.046 0.15"/>
      ${legOf(backLeg)}
      ${legOf(frontLeg)}
    </body>
  </worldbody>
  <actuator>
    ${[...backLeg, ...frontLeg].map(({ name, gear }) => `<motor joint="${name}" gear="${gear}"/>`).join("\n    ")}
  </actuator>
</mujoco>`;

/** The parts as nested bodies, each hanging on the one before. */
function legOf(parts: readonly LegPart[]): string {
  return parts.reduceRight(
    (inner, { name, at, range, stiffness, damping, center, lean, halfLength }) =>
      `<body name="${name}" pos="${at}">
        <joint name="${name}" range="${range}" stiffness="${stiffness}" damping="${damping}"/>
        <geom name="${name}" pos="${center}" axisangle="0 1 0 ${lean}" size="0.046 ${halfLength}"/>
        ${inner}
      </body>`,
    "",
  );
}
