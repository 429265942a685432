/** The port of the dashboard, unless another one is given. */
export const DASHBOARD_PORT = 4747;
