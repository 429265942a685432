/** VitePress's own theme, with our colors and widths. */
import DefaultTheme from "vitepress/theme";
import "./style.css";

export default DefaultTheme;
