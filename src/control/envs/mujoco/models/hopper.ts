/** The body of Hopper as MuJoCo's XML: one leg of three driven joints under a trunk that moves in a plane. */
import { type StandingLeg, standingBody, standingMotors } from "./standing-leg.ts";

const legs: readonly StandingLeg[] = [{ suffix: "", footReach: 0.13, footHalfLength: 0.195, footFriction: 2 }];

/** The model. Positions: x, height, pitch, thigh, leg, foot. The numbers are those of Gymnasium's model. */
export const hopperModel = `
<mujoco model="hopper">
  <compiler angle="degree" inertiafromgeom="true"/>
  <option timestep="0.002" integrator="RK4"/>
  <size memory="256K"/>
  <default>
    <joint type="hinge" axis="0 -1 0" armature="1" damping="1" limited="true"/>
    <geom type="capsule" contype="1" conaffinity="1" condim="1" margin="0.001" friction="0.9" solref="0.02 1" solimp="0.8 0.8 0.01"/>
    <default class="root">
      <joint armature="0" damping="0" limited="false"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="20 20 0.125" condim="3" friction="1"/>
    ${standingBody(legs)}
  </worldbody>
  <actuator>
    ${standingMotors(legs, 200)}
  </actuator>
</mujoco>`;
