/**
 * The trunk and the legs of Hopper and Walker2d as MuJoCo's XML, which differ in their feet and in their number of legs.
 *
 * Sizes in meters, angles in degrees. The numbers are those of Gymnasium's models.
 */

/** A leg: the suffix of its names, and its foot. */
export interface StandingLeg {
  /** "" or "_left". */
  readonly suffix: string;
  /** How far the tip of the foot lies ahead of the ankle. */
  readonly footReach: number;
  readonly footHalfLength: number;
  readonly footFriction: number;
}

/** The body from the trunk down. Positions: x, height, pitch, then thigh, leg and foot of every leg. */
export function standingBody(legs: readonly StandingLeg[]): string {
  return `
    <body name="torso" pos="0 0 1.25">
      <joint name="rootx" class="root" type="slide" axis="1 0 0" pos="0 0 -1.25"/>
      <joint name="rootz" class="root" type="slide" axis="0 0 1" pos="0 0 -1.25" ref="1.25"/>
      <joint name="rooty" class="root" axis="0 1 0"/>
      <geom name="torso" size="0.05 0.2"/>
      ${legs.map(legBody).join("\n      ")}
    </body>`;
}

/** A motor in every joint of every leg. */
export function standingMotors(legs: readonly StandingLeg[], gear: number): string {
  const joints = legs.flatMap(({ suffix }) => [`thigh${suffix}`, `leg${suffix}`, `foot${suffix}`]);
  return joints
    .map((joint) => `<motor joint="${joint}" gear="${gear}" ctrllimited="true" ctrlrange="-1 1"/>`)
    .join("\n    ");
}

function legBody({ suffix, footReach, footHalfLength, footFriction }: StandingLeg): string {
  return `<body name="thigh${suffix}" pos="0 0 -0.2">
        <joint name="thigh${suffix}" range="-150 0"/>
        <geom name="thigh${suffix}" pos="0 0 -0.225" size="0.05 0.225"/>
        <body name="leg${suffix}" pos="0 0 -0.7">
          <joint name="leg${suffix}" pos="0 0 0.25" range="-150 0"/>
          <geom name="leg${suffix}" size="0.04 0.25"/>
          <body name="foot${suffix}" pos="${footReach} 0 -0.35">
            <joint name="foot${suffix}" pos="${-footReach} 0 0.1" range="-45 45"/>
            <geom name="foot${suffix}" pos="${-footReach / 2} 0 0.1" axisangle="0 1 0 -90" size="0.06 ${footHalfLength}" friction="${footFriction}"/>
          </body>
        </body>
      </body>`;
}
