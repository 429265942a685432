/* Sets environment variables of the process. Worker threads have a copy of process.env, which libraries
 * loaded later do not see; OpenMP reads its settings once, when it is loaded. */
#include <node_api.h>
#include <stdlib.h>

static napi_value set_if_unset(napi_env env, napi_callback_info info) {
  napi_value args[2];
  size_t count = 2;
  char name[128];
  char value[128];
  size_t length;
  if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count != 2 ||
      napi_get_value_string_utf8(env, args[0], name, sizeof name, &length) != napi_ok ||
      napi_get_value_string_utf8(env, args[1], value, sizeof value, &length) != napi_ok) {
    napi_throw_type_error(env, NULL, "setIfUnset takes a name and a value, both strings");
    return NULL;
  }
  setenv(name, value, 0);
  return NULL;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "setIfUnset", NAPI_AUTO_LENGTH, set_if_unset, NULL, &function);
  napi_set_named_property(env, exports, "setIfUnset", function);
  return exports;
}
