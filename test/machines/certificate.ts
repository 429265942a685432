/** A certificate for 127.0.0.1 that trusts itself, made by openssl. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** Writes certificate and key into a folder, and returns where they are. */
export function makeCertificate(folder: string): { readonly certFile: string; readonly keyFile: string } {
  const [keyFile, certFile] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-subj", "/CN=controller", "-addext", "subjectAltName=IP:127.0.0.1"];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  execFileSync("openssl", [...made, ...subject, "-keyout", keyFile, "-out", certFile], { stdio: "ignore" });
  return { certFile, keyFile };
}
