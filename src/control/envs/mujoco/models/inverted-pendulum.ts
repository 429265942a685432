/** The cart and pole of InvertedPendulum as MuJoCo's XML. The numbers are those of Gymnasium's model. */

/** The model. Positions: cart, pole. The pole leans by a millimeter, so that it does not stand by itself. */
export const invertedPendulumModel = `
<mujoco model="inverted-pendulum">
  <compiler angle="degree" inertiafromgeom="true"/>
  <option timestep="0.02" integrator="RK4"/>
  <size memory="64K"/>
  <default>
    <joint damping="1" limited="true"/>
    <geom type="capsule" contype="0" friction="1 0.1 0.1"/>
  </default>
  <worldbody>
    <geom name="rail" quat="0.707 0 0.707 0" size="0.02 1"/>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-1 1"/>
      <geom name="cart" quat="0.707 0 0.707 0" size="0.1 0.1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" range="-90 90"/>
        <geom name="pole" fromto="0 0 0 0.001 0 0.6" size="0.049"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="slider" gear="100" ctrllimited="true" ctrlrange="-3 3"/>
  </actuator>
</mujoco>`;
