/** Where the dashboard listens, unless something else is said. */
export const DASHBOARD_PORT = 4747;
