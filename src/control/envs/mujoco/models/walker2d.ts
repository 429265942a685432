/** The body of Walker2d as MuJoCo's XML: two legs of three driven joints under a trunk that moves in a plane. */
import { type StandingLeg, standingBody, standingMotors } from "./standing-leg.ts";

/** The left foot grips better than the right one, as in Gymnasium's fourth version. */
const legs: readonly StandingLeg[] = [
  { suffix: "", footReach: 0.2, footHalfLength: 0.1, footFriction: 0.9 },
  { suffix: "_left", footReach: 0.2, footHalfLength: 0.1, footFriction: 1.9 },
];

/** The model. Positions: x, height, pitch, then thigh, leg and foot right and left. The numbers are those of Gymnasium's model. */
export const walker2dModel = `
<mujoco model="walker2d">
  <compiler angle="degree" inertiafromgeom="true"/>
  <option timestep="0.002" integrator="RK4"/>
  <size memory="256K"/>
  <default>
    <joint type="hinge" axis="0 -1 0" armature="0.01" damping="0.1" limited="true"/>
    <geom type="capsule" contype="1" conaffinity="0" condim="3" friction="0.9 0.1 0.1"/>
    <default class="root">
      <joint armature="0" damping="0" limited="false"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="40 40 40" conaffinity="1" friction="0.7"/>
    ${standingBody(legs)}
  </worldbody>
  <actuator>
    ${standingMotors(legs, 100)}
  </actuator>
</mujoco>`;
