#ifndef MOXIE_AOT_ABI
#define MOXIE_AOT_ABI 1

#include <stdbool.h>
#include <stdint.h>

/* What a function gives back; its message, where the caller has room for one, says more. */
typedef enum moxie_status {
  moxie_ok = 0,
  moxie_wrong_argument = 1,      /* a pointer is null */
  moxie_wrong_shape = 2,         /* a dim is out of range, or a count is not that of the shape */
  moxie_small_workspace = 3,     /* ask the workspace function for the size */
  moxie_outside_domain = 4,      /* values for which a formula has no result; outputs hold no meaning */
  moxie_unsupported_machine = 5, /* the library has no code for this processor or GPU */
  moxie_driver_error = 6         /* the CUDA driver refused a call */
} moxie_status;

/* Memory for a message, which ends in a zero byte. Wherever one is wanted, a null pointer does. */
typedef struct moxie_message {
  char text[512];
} moxie_message;

#endif
