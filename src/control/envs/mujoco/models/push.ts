/**
 * The table of the push task as MuJoCo's XML: a gantry carries a soft ring, and a puck lies within it.
 *
 * The ring is a spring between both centers that is slack for 2 cm: the puck is pushed by whichever side of the ring it touches,
 * and can never be lost. No shapes collide, so a step costs little.
 */

/** Kilograms of the carriage. */
export const CARRIAGE_MASS = 1;
/** How far the puck may be from the ring's center before the ring pushes, in meters. */
export const RING_SLACK = 0.02;

/** The model. Positions: carriage x and y, puck x and y, in meters. The puck's mass and damping are set by the task. */
export const pushModel = `
<mujoco model="push">
  <option timestep="0.02"/>
  <size memory="64K"/>
  <default>
    <geom type="cylinder" contype="0" conaffinity="0"/>
    <default class="x">
      <joint type="slide" axis="1 0 0"/>
    </default>
    <default class="y">
      <joint type="slide" axis="0 1 0"/>
    </default>
  </default>
  <worldbody>
    <body name="carriage">
      <joint name="carriage-x" class="x" damping="4" limited="true" range="-0.75 0.75"/>
      <joint name="carriage-y" class="y" damping="4" limited="true" range="-0.75 0.75"/>
      <geom name="ring" size="0.06 0.01" mass="${CARRIAGE_MASS}"/>
      <site name="ring"/>
    </body>
    <body name="puck">
      <joint name="puck-x" class="x" damping="2"/>
      <joint name="puck-y" class="y" damping="2"/>
      <geom name="puck" size="0.04 0.02" mass="1"/>
      <site name="puck"/>
    </body>
  </worldbody>
  <tendon>
    <spatial name="ring" springlength="0 ${RING_SLACK}" stiffness="150" damping="4">
      <site site="ring"/>
      <site site="puck"/>
    </spatial>
  </tendon>
  <actuator>
    <motor joint="carriage-x" gear="8"/>
    <motor joint="carriage-y" gear="8"/>
  </actuator>
</mujoco>`;
